// Builds the page from its sections.

const THEMES = { auto: "System colours", light: "Light", dark: "Dark" };

function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  const button = byId("theme");
  button.dataset.value = name;
  button.textContent = THEMES[name];
  button.setAttribute("aria-label", `Colours: ${THEMES[name]}; change`);
  emit("theme");
}

function nextTheme() {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(byId("theme").dataset.value) + 1) % names.length]);
}

function makeFigures() {
  byId("figures").append(
    ...report.figures.map(({ title, help, value, before, kind, better }) => {
      const changed = isNumber(before) && before !== value;
      const gain = changed && (better === "higher" ? value > before : value < before);
      return el(
        "div",
        { class: "figure-card", "data-figure": title },
        el("dt", { title: help }, title),
        el(
          "dd",
          {},
          datum(value, kind),
          changed &&
            el(
              "span",
              { class: `was ${better ? (gain ? "gain" : "loss") : ""}` },
              "was ",
              datum(before, kind),
              ratio(value, before, kind),
            ),
        ),
      );
    }),
  );
}

function ratio(value, before, kind) {
  if (["share", "decibel"].includes(kind) || !(before > 0) || !(value > 0) || !Number.isFinite(before / value))
    return null;
  return value < before ? `, ÷ ${significant(before / value, 3)}` : `, × ${significant(value / before, 3)}`;
}

function start() {
  byId("title").textContent = report.title;
  byId("subtitle").textContent = report.subtitle;
  byId("theme").addEventListener("click", nextTheme);
  byId("cost-note").textContent = report.notes.cost;
  makeFigures();
  const results = makePareto();
  // A search comes first: the other sections show the model that it started from.
  const first = results && [results, section("key-figures", "Key figures", report.notes.search, byId("figures"), byId("cost-note"))];
  const parts = [first, makeGraph(), makeBars(), makeTable(), makeCurves(), makeHardware(), makeExports()].flat().filter(Boolean);
  byId("main").append(...parts, makePanel());
  byId("contents").append(
    el(
      "ul",
      {},
      parts.map((part) => el("li", {}, el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent))),
    ),
  );
  byId("footer").append(el("p", {}, report.footer));
  drawReadable();
  setTheme("auto");
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    matchMedia(query).addEventListener("change", () => emit("theme"));
  const fitSoon = debounced(fitCurves, 150);
  window.addEventListener("resize", fitSoon);
  on("select", fitSoon); // the panel opens or closes
  document.documentElement.dataset.ready = "yes";
}

function debounced(action, delay) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(action, delay);
  };
}

start();
