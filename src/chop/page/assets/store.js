// The document that the page shows, and the selected node.

const NOT_FINITE = { "\u0000inf": Infinity, "\u0000-inf": -Infinity, "\u0000nan": NaN };

const report = withInfinities(JSON.parse(await readDocument()));

// The text of the document; that of a large model is compressed.
async function readDocument() {
  const element = byId("document");
  if (element.dataset.encoding !== "gzip") return element.textContent;
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// JSON has no infinity and NaN, so they are stored as strings.
function withInfinities(value) {
  if (typeof value === "string") return value in NOT_FINITE ? NOT_FINITE[value] : value;
  if (value === null || typeof value !== "object") return value;
  for (const key in value) {
    const item = value[key];
    if (typeof item === "object" || typeof item === "string") value[key] = withInfinities(item);
  }
  return value;
}

const nodes = report.nodes;
const users = nodes.map(() => []);
nodes.forEach((node, index) => node.inputs.forEach((input) => users[input].push(index)));

const listeners = { select: [], theme: [] };
let selected = null;

function on(event, listener) {
  listeners[event].push(listener);
}

function emit(event, value) {
  for (const listener of listeners[event]) listener(value);
}

// Select a node by its position; `from` names the section in which, so that only the others scroll to it.
function select(index, from) {
  selected = index;
  emit("select", { index, from, opener: document.activeElement });
  if (index !== null) announce(`${nodes[index].name} is selected`);
}

// What is known about nodes, for columns, bars and colours. Titles and kinds come from the table of key figures.
function measure(key, figure, rest) {
  const { title, kind, help } = report.node_figures[figure];
  return { key, title, kind, help, ...rest };
}

const MEASURES = [
  measure("bits_per_weight", "average_weight_bits", {
    of: (n) => n.bits_per_weight,
    before: (n) => n.before && n.before.bits_per_weight,
  }),
  measure("bits_per_input", "average_activation_bits", {
    of: (n) => n.bits_per_input,
    before: (n) => n.before && n.before.bits_per_input,
  }),
  ...[
    "macs",
    "flops",
    "bitops",
    "parameters",
    "weight_bits",
    "activation_bits",
    "intensity",
    "energy_pj",
    "time_s",
  ].map((key) =>
    measure(key, key, {
      cost: true,
      of: (n) => n.cost && n.cost[key],
      before: (n) => n.before && n.before.cost && n.before.cost[key],
    }),
  ),
  ...["sqnr_db", "max_error", "cosine"].map((key) =>
    measure(key, key, { error: true, of: (n) => n.error && n.error[key] }),
  ),
  ...["output_sqnr_db", "loss_change", "accuracy_change"].map((key) =>
    measure(`alone_${key}`, key, {
      title: `${report.node_figures[key].title}, only this node quantised`,
      error: true,
      of: (n) => n.sensitivity && n.sensitivity.alone && n.sensitivity.alone[key],
    }),
  ),
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
