// Bar charts of cost and error by layer.

const ROWS_AT_FIRST = 30;

function makeBars() {
  const measures = measuresPresent().filter((measure) => measure.cost || measure.error);
  if (!measures.length) return null;
  const costs = measures.filter((measure) => measure.cost);
  const errors = measures.filter((measure) => measure.error);
  const wanted = (list, key) => list.find((measure) => measure.key === key) || list[0];
  const lead = [report.notes.cost, report.notes.error].filter(Boolean).join(" ");
  return section(
    "bars",
    "Cost and error by layer",
    lead,
    el(
      "div",
      { class: "pair" },
      costs.length > 0 && barChart("cost", "Cost", costs, wanted(costs, "bitops")),
      errors.length > 0 && barChart("error", "Error", errors, wanted(errors, "sqnr_db")),
    ),
  );
}

function barChart(id, title, measures, first) {
  const state = { measure: first, all: false };
  const list = el("ol", { class: "bars", id: `${id}-bars` });
  const more = el("button", {
    type: "button",
    class: "quiet",
    onclick: () => {
      state.all = true;
      draw();
    },
  });
  const choose = picker(
    `${id}-measure`,
    title,
    measures.map((measure) => [measure.key, measure.title]),
    (key) => {
      state.measure = measures.find((measure) => measure.key === key);
      draw();
    },
  );
  choose.querySelector("select").value = first.key;
  const draw = () => drawBars(list, more, state);
  draw();
  on("select", ({ index }) =>
    [...list.children].forEach((row) => row.classList.toggle("selected", Number(row.dataset.index) === index)),
  );
  return el("div", { class: "chart" }, choose, legendOfBars(measures), list, more);
}

function legendOfBars(measures) {
  if (!measures.some(differs)) return null;
  return el(
    "p",
    { class: "hint key" },
    el("i", { class: "swatch bar-now" }),
    "now",
    el("i", { class: "swatch bar-before" }),
    "before",
  );
}

function drawBars(list, more, { measure, all }) {
  const rows = nodes
    .map((node, index) => ({
      node,
      index,
      value: measure.of(node),
      before: measure.before ? measure.before(node) : null,
    }))
    .filter(({ value }) => isNumber(value) && (value !== 0 || measure.error));
  const sizes = rows
    .flatMap(({ value, before }) => [value, before])
    .filter((value) => isNumber(value) && Number.isFinite(value));
  const top = Math.max(...sizes.map(Math.abs), 0) || 1;
  const seen = all ? rows : rows.slice(0, ROWS_AT_FIRST);
  const share = (value) => `${isNumber(value) ? Math.min(100, (100 * Math.abs(value)) / top) : 0}%`;
  list.replaceChildren(
    ...seen.map(({ node, index, value, before }) => {
      const now = el("i", { class: value === Infinity ? "bar exact" : value < 0 ? "bar negative" : "bar" });
      now.style.width = share(value);
      const was = isNumber(before) && before !== value ? el("i", { class: "bar was" }) : null;
      if (was) was.style.width = share(before);
      return el(
        "li",
        { "data-index": index },
        el(
          "button",
          { type: "button", class: "link", title: node.name, onclick: () => select(index, "bars") },
          node.name,
        ),
        el("span", { class: "track", "aria-hidden": "true" }, was, now),
        el("span", { class: "figure" }, datum(value, measure.kind)),
      );
    }),
  );
  more.hidden = seen.length === rows.length;
  more.textContent = `Show all ${rows.length}`;
}
