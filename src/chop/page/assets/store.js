// What the page shows, and which node of it is chosen.

const report = JSON.parse(byId("document").textContent, (key, value) =>
  value === "\u0000inf" ? Infinity : value === "\u0000-inf" ? -Infinity : value === "\u0000nan" ? NaN : value,
);
const nodes = report.nodes;
const users = nodes.map(() => []);
nodes.forEach((node, place) => node.inputs.forEach((input) => users[input].push(place)));

const listeners = { select: [], theme: [] };
let selected = null;

function on(event, listener) {
  listeners[event].push(listener);
}

function emit(event, value) {
  for (const listener of listeners[event]) listener(value);
}

// Choose a node by its place; `from` says where, so that only others scroll to it.
function select(place, from) {
  selected = place;
  emit("select", { place, from, opener: document.activeElement });
  if (place !== null) announce(`${nodes[place].name} is selected`);
}

// The measures that nodes of this report have: for columns, bars and colours.
const MEASURES = [
  {
    key: "weight_bits",
    title: "Weight bits",
    kind: "number",
    of: (n) => n.weight_bits,
    before: (n) => n.before && n.before.weight_bits,
  },
  {
    key: "data_bits",
    title: "Data bits",
    kind: "number",
    of: (n) => n.data_bits,
    before: (n) => n.before && n.before.data_bits,
  },
  ...[
    ["macs", "MACs", "count"],
    ["flops", "FLOPs", "count"],
    ["bitops", "Bit operations", "count"],
    ["parameters", "Parameters", "count"],
    ["weight_bits", "Weight memory", "memory"],
    ["activation_bits", "Activation memory", "memory"],
    ["intensity", "Operations a byte", "number"],
    ["energy_pj", "Energy", "energy"],
    ["time_s", "Time", "seconds"],
  ].map(([key, title, kind]) => ({
    key: `cost_${key}`,
    title,
    kind,
    cost: true,
    of: (n) => n.cost && n.cost[key],
    before: (n) => n.before && n.before.cost && n.before.cost[key],
  })),
  { key: "sqnr_db", title: "SQNR", kind: "decibel", error: true, of: (n) => n.error && n.error.sqnr_db },
  {
    key: "max_error",
    title: "Largest error",
    kind: "number",
    error: true,
    of: (n) => n.error && n.error.max_error,
  },
  { key: "cosine", title: "Cosine", kind: "number", error: true, of: (n) => n.error && n.error.cosine },
  ...[
    ["output_sqnr_db", "SQNR of the output, alone", "decibel"],
    ["loss_change", "Loss, alone", "number"],
    ["accuracy_change", "Accuracy, alone", "points"],
  ].map(([key, title, kind]) => ({
    key: `alone_${key}`,
    title,
    kind,
    error: true,
    of: (n) => n.sensitivity && n.sensitivity.alone && n.sensitivity.alone[key],
  })),
];

function measuresPresent() {
  return MEASURES.filter((measure) => nodes.some((node) => isNumber(measure.of(node)) && measure.of(node) !== 0));
}

function differs(measure) {
  return (
    Boolean(measure.before) &&
    nodes.some((node) => isNumber(measure.before(node)) && measure.before(node) !== measure.of(node))
  );
}
