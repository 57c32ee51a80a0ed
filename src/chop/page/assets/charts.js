// Training curves (uPlot), with the same numbers as tables.

const MAX_ROWS = 200; // of the table below a plot
// The same in all plots; each series has its own lightness or dashes, so that colour alone decides nothing.
const LINES = {
  "each batch": { ink: "--edge", width: 1 },
  training: { ink: "--accent", width: 2 },
  validation: { ink: "--second", width: 2, dash: [7, 4] },
  test: { ink: "--third", width: 2, dash: [2, 3] },
};
const OTHER_INKS = ["--fourth", "--third", "--accent", "--second"];
const drawn = [];

function makeCurves() {
  if (!report.curves.length) return null;
  const charts = report.curves.map((curves) =>
    el(
      "figure",
      { class: "chart" },
      el("figcaption", {}, curves.title),
      curvesElement(curves),
      curvesTable(curves),
    ),
  );
  on("theme", drawCurves);
  return section("training", "Training", null, el("div", { class: "pair narrow" }, charts));
}

function curvesElement(curves) {
  const container = el("div", {
    class: "curves",
    role: "img",
    "aria-label": `${curves.title} over ${curves.x_title}; the numbers are in the table below`,
  });
  drawn.push({ container, curves, plot: null });
  return container;
}

function curvesTable(curves) {
  const rows = curves.x.map((x, i) => ({ x, values: curves.series.map((series) => series.values[i]) }));
  const latest = rows
    .filter(({ values }) => values.some((value) => value !== null))
    .slice(-MAX_ROWS);
  return el(
    "details",
    {},
    el("summary", {}, "Numbers"),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": `Values of ${curves.title}` },
      el(
        "table",
        { class: "small" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, curves.x_title),
            curves.series.map((series) => el("th", { scope: "col" }, series.name)),
          ),
        ),
        el(
          "tbody",
          {},
          latest.map(({ x, values }) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, datum(x, "exact")),
              values.map((value) => el("td", {}, datum(value, "number"))),
            ),
          ),
        ),
      ),
    ),
  );
}

function drawCurves() {
  for (const chart of drawn) {
    if (chart.plot) chart.plot.destroy();
    const { curves, container } = chart;
    chart.plot = new uPlot(
      curveOptions(curves, container.clientWidth || 480),
      [curves.x, ...curves.series.map(({ values }) => values.map((value) => (Number.isFinite(value) ? value : null)))],
      container,
    );
  }
}

// Resize the plots after the window or the panel changed their containers.
function fitCurves() {
  for (const { plot, container } of drawn) {
    const width = container.clientWidth;
    if (plot && width && plot.width !== width) plot.setSize({ width, height: plot.height });
  }
}

function curveOptions(curves, width) {
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: 250,
    scales: { x: { time: false } },
    cursor: { points: { size: 6 } },
    legend: { live: false },
    axes: [
      { ...axis, label: curves.x_title, labelSize: 18, labelFont: "12px system-ui, sans-serif" },
      { ...axis, size: 58, values: (plot, ticks) => ticks.map((tick) => significant(tick, 6)) },
    ],
    series: [
      { label: curves.x_title },
      ...curves.series.map((series, i) => {
        const { ink, width, dash = [] } = LINES[series.name] || { ink: OTHER_INKS[i % OTHER_INKS.length], width: 2 };
        return {
          label: series.name,
          stroke: colour(ink),
          width,
          spanGaps: true,
          dash,
          points: { show: curves.x.length < 30, size: 5 },
        };
      }),
    ],
  };
}
