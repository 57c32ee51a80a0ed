// The results of a search: one point per trial, with its configuration.

const PLOT = { width: 640, height: 380, left: 74, right: 24, top: 18, bottom: 48 };
const pareto = {};

function makePareto() {
  if (!report.search) return null;
  const { metrics, trials } = report.search;
  const names = Object.keys(metrics);
  pareto.trials = trials.filter((trial) => names.some((name) => isNumber(trial.metrics[name])));
  if (!pareto.trials.length || !names.length) return null;
  pareto.y = names.find((name) => metrics[name].direction === "maximize") || names[0];
  const others = names.filter((name) => name !== pareto.y);
  pareto.x = others.find((name) => !name.includes("loss")) || others[0] || pareto.y; // a cost, if there is one
  pareto.plot = svg("svg", {
    id: "pareto-plot",
    viewBox: `0 0 ${PLOT.width} ${PLOT.height}`,
    role: "group",
    "aria-label": "Trials of the search; arrow keys move between points, Enter opens one",
    onkeydown: onParetoKey,
  });
  pareto.all = el("input", { type: "checkbox", id: "all-trials", onchange: drawPareto });
  pareto.more = el("label", { class: "hint" });
  pareto.details = el(
    "div",
    { id: "trial", "aria-live": "polite" },
    el("p", { class: "hint" }, "Select a point to see its configuration."),
  );
  const choose = (id, title, key) => {
    const made = picker(
      id,
      title,
      names.map((name) => [name, choiceTitle(name)]),
      (name) => {
        pareto[key] = name;
        drawPareto();
      },
    );
    made.querySelector("select").value = pareto[key];
    return made;
  };
  drawPareto();
  const best = pareto.trials.find(isBest);
  if (best) showTrial(best);
  const front = pareto.trials.filter((trial) => trial.front).length;
  const lead = `${report.search.study}: ${exact(trials.filter((trial) => !trial.baseline).length)} trials, ${front} Pareto-optimal.`;
  return section(
    "search-section",
    "Search",
    lead,
    bestTrial(),
    el(
      "div",
      { class: "toolbar" },
      choose("pareto-x", "X axis", "x"),
      choose("pareto-y", "Y axis", "y"),
      el("span", { class: "spring" }),
      el(
        "ul",
        { class: "legend" },
        [
          ...(best ? [["point front best", "best trial"]] : []),
          ["point front", "Pareto-optimal"],
          ["point", "other trials"],
          ["point baseline", "uniform baseline"],
        ].map(([name, text]) => el("li", {}, el("i", { class: `mark ${name}` }), text)),
      ),
    ),
    el("div", { class: "pareto" }, el("div", { class: "chart" }, pareto.plot, pareto.more), pareto.details),
  );
}

// Whether a trial is accurate enough to be chosen, if the plot shows accuracies.
function isOfInterest(trial) {
  const lowest = report.search.lowest_shown;
  return pareto.y !== "accuracy" || !isNumber(lowest) || trial.metrics.accuracy >= lowest;
}

function isBest(trial) {
  return trial.baseline === null && trial.number === report.search.best?.number;
}

// Which trial is the best one, why, and the command that makes its model.
function bestTrial() {
  const { best } = report.search;
  if (!best) return null;
  return el(
    "p",
    { id: "best-trial" },
    el("strong", {}, `Best: trial ${best.number}`),
    `${best.rule && `, ${best.rule}`}. To make its model: `,
    el("code", {}, best.command),
  );
}

function metricTitle(name) {
  return report.search.shown[name].title;
}

function metricKind(name) {
  return report.search.shown[name].kind;
}

function axisTitle(name) {
  return report.search.metrics[name].axis_title;
}

function choiceTitle(name) {
  const { direction } = report.search.metrics[name];
  return `${metricTitle(name)} (${direction === "maximize" ? "higher" : "lower"} is better)`;
}

function drawPareto() {
  const known = pareto.trials.filter(
    (trial) => isNumber(trial.metrics[pareto.x]) && isNumber(trial.metrics[pareto.y]),
  );
  const placed = known.filter((trial) => pareto.all.checked || isOfInterest(trial));
  const lowest = shown(report.search.lowest_shown, "share");
  const left = known.filter((trial) => !isOfInterest(trial)).length;
  pareto.more.hidden = left === 0;
  pareto.more.replaceChildren(pareto.all, ` show ${left} ${left === 1 ? "trial" : "trials"} below ${lowest}`);
  const across = scale(
    pareto.x,
    placed.map((trial) => trial.metrics[pareto.x]),
    PLOT.left,
    PLOT.width - PLOT.right,
  );
  const up = scale(
    pareto.y,
    [...placed.map((trial) => trial.metrics[pareto.y]), report.search.plain[pareto.y]],
    PLOT.height - PLOT.bottom,
    PLOT.top,
  );
  const at = (trial) => [across(trial.metrics[pareto.x]), up(trial.metrics[pareto.y])];
  const taken = placed.map((trial) => boxAround(...at(trial), isBest(trial) ? 12 : 7));
  const order = (trial) => Number(trial.front) + 2 * Number(trial.baseline !== null);
  pareto.points = placed
    .slice()
    .sort((a, b) => order(a) - order(b))
    .map((trial) => ({ trial, element: point(trial, ...at(trial)) }));
  pareto.plot.replaceChildren(
    axes(across, up),
    plainLine(up, taken),
    frontLine(
      placed.filter((trial) => trial.front),
      at,
    ),
    ...pareto.points.map(({ element }) => element),
    ...placed.filter((trial) => trial.baseline !== null).map((trial) => baselineLabel(trial, ...at(trial), taken)),
  );
  pareto.points.sort(
    (a, b) => a.trial.metrics[pareto.x] - b.trial.metrics[pareto.x] || a.trial.number - b.trial.number,
  );
  const start = pareto.points.find(({ trial }) => trial.front) || pareto.points[0];
  if (start) start.element.setAttribute("tabindex", 0);
}

// The position of a metric's values on an axis that reaches from `from` to `to`.
function scale(name, values, from, to) {
  const finite = values.filter(Number.isFinite);
  let [low, high] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  // Values that differ only in their last digits count as equal: there is no room for ticks between them.
  const room = (high - low > 1e-9 * size ? high - low : size || 1) * 0.06;
  [low, high] = [low >= 0 && low < room ? 0 : low - room, high + room];
  const position = (value) => from + ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (to - from);
  position.ticks = ticks(low, high, TICKS[metricKind(name)] || withPrefix);
  return position;
}

const TICKS = {
  share: (value, unit, digits) => `${significant(100 * value, digits)} %`,
  memory: (value, unit, digits) => withPrefix(value / 8, "B", digits),
  energy: (value, unit, digits) => inUnits(value, ENERGY_UNITS, digits),
};

function ticks(low, high, write) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) || rough;
  const digits = Math.max(3, 1 + Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)));
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1)
    found.push([i * step, write(Number((i * step).toPrecision(12)), "", digits)]);
  return found;
}

function axes(across, up) {
  const group = svg("g", { class: "axes", "aria-hidden": "true" });
  for (const [value, text] of across.ticks)
    group.append(
      svg("path", { d: `M${across(value)},${PLOT.top}V${PLOT.height - PLOT.bottom}` }),
      svg(
        "text",
        { x: across(value), y: PLOT.height - PLOT.bottom + 17, "text-anchor": "middle" },
        text,
      ),
    );
  for (const [value, text] of up.ticks)
    group.append(
      svg("path", { d: `M${PLOT.left},${up(value)}H${PLOT.width - PLOT.right}` }),
      svg("text", { x: PLOT.left - 8, y: up(value) + 4, "text-anchor": "end" }, text),
    );
  const middle = (PLOT.top + PLOT.height - PLOT.bottom) / 2;
  group.append(
    svg(
      "text",
      { class: "name", x: (PLOT.left + PLOT.width - PLOT.right) / 2, y: PLOT.height - 8, "text-anchor": "middle" },
      axisTitle(pareto.x),
    ),
    svg(
      "text",
      { class: "name", transform: `translate(16,${middle}) rotate(-90)`, "text-anchor": "middle" },
      axisTitle(pareto.y),
    ),
  );
  return group;
}

function better(name, a, b) {
  return report.search.metrics[name].direction === "maximize" ? a > b : a < b;
}

// The front for the two metrics on the axes, among the trials that are Pareto-optimal for all metrics.
function frontLine(front, at) {
  const dominated = (trial) =>
    front.some(
      (other) =>
        [pareto.x, pareto.y].every((name) => !better(name, trial.metrics[name], other.metrics[name])) &&
        [pareto.x, pareto.y].some((name) => better(name, other.metrics[name], trial.metrics[name])),
    );
  const kept = front
    .filter((trial) => !dominated(trial))
    .map(at)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return svg("path", {
    class: "front-line",
    "aria-hidden": "true",
    d: kept.map(([x, y], i) => `${i ? "L" : "M"}${x},${y}`).join(""),
  });
}

// The metric of the original model, with a label where it covers no point; without a free place it has a tooltip only.
function plainLine(up, taken) {
  const value = report.search.plain[pareto.y];
  if (!isNumber(value)) return "";
  const right = PLOT.width - PLOT.right;
  const text = `${report.search.original}: ${shown(value, metricKind(pareto.y))}`;
  taken.push({ left: PLOT.left, right, top: up(value) - 1, bottom: up(value) + 1 });
  const places = [up(value) - 5, up(value) + 15].flatMap((y) => [
    { x: PLOT.left + 6, y, anchor: "start" },
    { x: right, y, anchor: "end" },
    { x: (PLOT.left + right) / 2, y, anchor: "middle" },
  ]);
  return svg(
    "g",
    { class: "plain-line", role: "img", "aria-label": `${metricTitle(pareto.y)} of the ${text}` },
    svg("path", { d: `M${PLOT.left},${up(value)}H${right}` }),
    label({}, text, places, taken),
    svg("title", {}, text),
  );
}

function boxAround(x, y, radius) {
  return { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius };
}

// A text at the first of `places` that is inside the plot and covers nothing in `taken`, to which it is added.
function label(attributes, text, places, taken) {
  const width = textWidth(text, "400 12px");
  for (const { x, y, anchor } of places) {
    const left = x - { start: 0, middle: width / 2, end: width }[anchor];
    const box = { left, right: left + width, top: y - 11, bottom: y + 3 };
    const isInside = box.left >= PLOT.left && box.right <= PLOT.width && box.top >= 0 && box.bottom <= PLOT.height - PLOT.bottom;
    if (!isInside || taken.some((other) => overlap(box, other))) continue;
    taken.push(box);
    return svg("text", { ...attributes, x, y, "text-anchor": anchor }, text);
  }
  return "";
}

function overlap(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function point(trial, x, y) {
  const kind = trial.baseline !== null ? "point baseline" : trial.front ? "point front" : "point";
  const best = isBest(trial);
  const numbers = [pareto.x, pareto.y].map((name) => `${metricTitle(name)} ${shown(trial.metrics[name], metricKind(name))}`).join(", ");
  const label = `${trial.baseline !== null ? `baseline ${trial.baseline}` : `trial ${trial.number}`}, ${numbers}${trial.front ? ", Pareto-optimal" : ""}${best ? ", best trial" : ""}`;
  const shape =
    trial.baseline !== null
      ? svg("path", { d: `M${x},${y - 7}l7,7l-7,7l-7,-7z` })
      : svg("circle", { cx: x, cy: y, r: trial.front ? 6 : 4 });
  const element = svg(
    "g",
    {
      class: best ? `${kind} best` : kind,
      role: "button",
      tabindex: -1,
      "data-trial": trial.number,
      "aria-label": label,
      onclick: () => showTrial(trial),
    },
    best ? svg("path", { class: "ring", d: `M${x - 11},${y}a11,11 0 1 0 22,0a11,11 0 1 0 -22,0z` }) : "",
    shape,
    svg("title", {}, label),
  );
  element.classList.toggle("selected", pareto.chosen === trial);
  return element;
}

function baselineLabel(trial, x, y, taken) {
  const places = [
    { x: x + 11, y: y + 4, anchor: "start" },
    { x: x - 11, y: y + 4, anchor: "end" },
    { x: x + 8, y: y + 18, anchor: "start" },
    { x: x - 8, y: y + 18, anchor: "end" },
    { x, y: y + 22, anchor: "middle" },
    { x, y: y - 12, anchor: "middle" },
    { x: x + 14, y: y + 32, anchor: "start" },
  ];
  return label({ class: "baseline-label", "aria-hidden": "true" }, trial.baseline, places, taken);
}

function onParetoKey(event) {
  const at = pareto.points.findIndex(({ element }) => element === document.activeElement);
  if (at < 0) return;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (event.key === "Enter" || event.key === " ") showTrial(pareto.points[at].trial);
  else if (step) {
    const next = pareto.points[Math.min(pareto.points.length - 1, Math.max(0, at + step))];
    pareto.points.forEach(({ element }) => element.setAttribute("tabindex", -1));
    next.element.setAttribute("tabindex", 0);
    next.element.focus();
  } else return;
  event.preventDefault();
}

function showTrial(trial) {
  pareto.chosen = trial;
  pareto.points.forEach(({ trial: each, element }) => element.classList.toggle("selected", each === trial));
  const names = Object.keys(trial.metrics);
  const copy = el("button", { type: "button", id: "copy-toml", onclick: () => copyText(trial.toml, copy) }, "Copy");
  pareto.details.replaceChildren(
    ...[
      el("h3", {}, trial.baseline !== null ? `Baseline: ${trial.baseline}` : `Trial ${trial.number}${isBest(trial) ? " (best)" : ""}`),
      el(
        "dl",
        { class: "facts" },
        names.map((name) => [
          el("dt", {}, metricTitle(name)),
          el("dd", {}, datum(trial.metrics[name], metricKind(name))),
        ]),
      ),
      trial.toml === null
        ? el("p", { class: "hint" }, "The log does not contain the configuration of this trial.")
        : el(
            "div",
            { class: "code" },
            el("div", { class: "code-head" }, el("span", {}, "TOML"), copy),
            el("pre", { id: "toml", tabindex: 0, "aria-label": "Configuration as TOML" }, trial.toml),
          ),
    ],
  );
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages on disk may be refused the clipboard; then the text is selected and copied.
    const range = document.createRange();
    range.selectNodeContents(byId("toml"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  announce("Configuration copied");
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
