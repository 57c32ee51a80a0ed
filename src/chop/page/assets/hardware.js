// The circuit of the model: its parts with area and timing, and a picture of when each of them computes.

const BAR_HEIGHT = 22;
const LABEL_WIDTH = 140;
const CHART_WIDTH = 640;

function makeHardware() {
  const design = report.hardware;
  if (!design) return null;
  const lead =
    `Latency in clock cycles: ${design.latency}; cycles between two inputs: ${design.interval}; estimated area: ` +
    `${design.lut} LUT, ${design.ff} FF and ${design.dsp} DSP of a Xilinx 7 series FPGA.`;
  return section(
    "hardware",
    "Hardware",
    lead,
    el(
      "div",
      { class: "pair" },
      el("figure", { class: "chart" }, el("figcaption", {}, "Schedule in clock cycles"), schedule(design)),
      el("figure", { class: "chart" }, el("figcaption", {}, "Parts of the circuit"), partsTable(design)),
    ),
  );
}

function schedule(design) {
  const scale = (CHART_WIDTH - LABEL_WIDTH - 40) / Math.max(1, design.latency);
  const height = design.units.length * BAR_HEIGHT + 4;
  const rows = design.units.flatMap((unit, i) => [
    svg("text", { x: 0, y: i * BAR_HEIGHT + 16, class: "schedule-label" }, partName(unit.node)),
    svg(
      "rect",
      {
        x: LABEL_WIDTH + unit.start * scale,
        y: i * BAR_HEIGHT + 3,
        width: Math.max(2, unit.latency * scale),
        height: BAR_HEIGHT - 6,
        rx: 3,
        class: "schedule-bar",
      },
      svg("title", {}, `${unit.node}: cycle ${unit.start} to ${unit.start + unit.latency}`),
    ),
    svg(
      "text",
      { x: LABEL_WIDTH + (unit.start + unit.latency) * scale + 4, y: i * BAR_HEIGHT + 16, class: "schedule-label" },
      String(unit.latency),
    ),
  ]);
  const label = "When each part of the circuit computes; the numbers are in the table";
  return svg("svg", { viewBox: `0 0 ${CHART_WIDTH} ${height}`, role: "img", "aria-label": label }, rows);
}

function partName(name) {
  const first = name.split(" + ")[0];
  return first.length > 18 ? `${first.slice(0, 17)}…` : first;
}

function partsTable(design) {
  const headings = ["node", "strategy", "LUT", "FF", "DSP", "latency", "interval"];
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parts of the circuit" },
    el(
      "table",
      { class: "small" },
      el("thead", {}, el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)))),
      el(
        "tbody",
        {},
        design.units.map((unit) =>
          el(
            "tr",
            {},
            [unit.node, unit.strategy, unit.lut, unit.ff, unit.dsp, unit.latency, unit.interval].map((value) =>
              el("td", {}, String(value)),
            ),
          ),
        ),
      ),
    ),
  );
}
