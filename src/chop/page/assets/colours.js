// The colours of boxes and their legend.

const MAX_OPS = 12; // in the legend
const NUM_STEPS = 7;

// The available colourings: key, title, and {classOf, legend}.
function colourings() {
  const ways = [["op", "Op", byOp()]];
  for (const measure of measuresPresent()) {
    if (
      [
        "bits_per_weight",
        "bits_per_input",
        "bitops",
        "macs",
        "sqnr_db",
        "alone_output_sqnr_db",
        "alone_loss_change",
      ].includes(measure.key)
    ) {
      ways.push([measure.key, measure.title, byMeasure(measure)]);
    }
  }
  return ways;
}

// The hue of an op, which is the same in all reports; ops that stand for each other in a model share one.
const FAMILIES = [
  /linear|embedding|hadamard/,
  /relu|gelu|silu|swish|elu|mish|sigmoid|tanh|soft(plus|sign|shrink)|shrink|threshold|glu|dropout/,
  /norm/,
  /conv/,
  /matmul|bmm|addmm|attention|einsum|outer|tensordot|transformer/,
  /softmax|softmin|loss|entropy/,
  /pool|mean|sum|max|min|topk|interpolate|upsample/,
  /^(add|sub|rsub|mul|div|neg|pow|sqrt|rsqrt|square|abs|exp|log|clamp|cat|stack)/,
  /./, // all others
];

function hueOf(op) {
  return `hue${FAMILIES.findIndex((family) => family.test(op))}`;
}

function byOp() {
  const counts = new Map();
  for (const node of nodes) if (!isBorder(node)) counts.set(node.op, (counts.get(node.op) || 0) + 1);
  const ops = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  const legend = ops.slice(0, MAX_OPS).map((op) => [hueOf(op), `${op} (${counts.get(op)})`]);
  const rest = ops.slice(MAX_OPS).reduce((sum, op) => sum + counts.get(op), 0);
  if (rest) legend.push(["", `others (${rest})`]);
  return { classOf: (node) => hueOf(node.op), legend };
}

function isBorder(node) {
  return ["placeholder", "output", "get_attr"].includes(node.kind);
}

function byMeasure(measure) {
  const values = nodes.map(measure.of).filter((value) => isNumber(value) && Number.isFinite(value));
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const logarithmic = measure.cost && distinct[0] >= 0;
  const scaled = (value) => (logarithmic ? Math.log10(1 + value) : value);
  const low = scaled(distinct[0]);
  const high = scaled(distinct[distinct.length - 1]);
  const step = (value) => {
    return high > low ? Math.min(NUM_STEPS - 1, Math.floor(((scaled(value) - low) / (high - low)) * NUM_STEPS)) : 0;
  };
  const classOf = (node) => {
    const value = measure.of(node);
    if (value === Infinity) return "exactbox"; // outside the scale of finite values
    return isNumber(value) ? `step${Math.max(0, step(value))}` : "plainbox";
  };
  const legend = [];
  for (let i = 0; i < NUM_STEPS; i += 1) {
    const within = distinct.filter((value) => step(value) === i);
    if (!within.length) continue;
    const ends = [within[0], within[within.length - 1]].map((value) => shown(value, measure.kind));
    legend.push([`step${i}`, ends[0] === ends[1] ? ends[0] : `${ends[0]} – ${ends[1]}`]);
  }
  if (nodes.some((node) => measure.of(node) === Infinity)) legend.push(["exactbox", shown(Infinity, measure.kind)]);
  legend.push(["plainbox", "none"]);
  return { classOf, legend };
}
