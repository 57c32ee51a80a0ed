// Numbers as text, by kind (see display/figures.py). A <data> element keeps the exact value of each number.

const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const ROUNDS_UP = 0.9995; // from this share of 1000 on, three digits would show 1000

function isNumber(value) {
  return typeof value === "number" && !Number.isNaN(value);
}

function trimmed(value, digits) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.max(0, digits - 1)).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

function plainNumber(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "none";
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toLocaleString("en") : trimmed(value, 6);
  return text.replace("-", "−");
}

function shortNumber(value, unit = "", digits = 3) {
  if (!Number.isFinite(value)) return plainNumber(value) + (unit && ` ${unit}`);
  const size = Math.abs(value);
  for (const [factor, prefix] of PREFIXES) {
    if (size >= ROUNDS_UP * factor) return `${trimmed(value / factor, digits)} ${prefix}${unit}`.replace("-", "−");
  }
  return `${trimmed(value, digits)}${unit && ` ${unit}`}`.replace("-", "−");
}

// In the largest unit of which there is at least one.
function inUnits(value, units) {
  const [factor, unit] = units.find(([each]) => value >= ROUNDS_UP * each) || units[units.length - 1];
  return `${trimmed(value / factor, 3)} ${unit}`;
}

const SHOWN = {
  count: (value) => shortNumber(value),
  exact: plainNumber,
  number: (value) => (Number.isFinite(value) ? trimmed(value, 4).replace("-", "−") : plainNumber(value)),
  share: (value) => `${trimmed(100 * value, 4)} %`.replace("-", "−"),
  points: (value) => `${trimmed(100 * value, 4)} points`.replace("-", "−"),
  decibel: (value) => `${Number.isFinite(value) ? value.toFixed(1).replace("-", "−") : plainNumber(value)} dB`,
  memory: (value) => shortNumber(value / 8, "B"),
  bits: (value) => `${trimmed(value, 4)} ${value === 1 ? "bit" : "bits"}`,
  energy: (value) =>
    inUnits(value, [
      [1e12, "J"],
      [1e9, "mJ"],
      [1e6, "µJ"],
      [1e3, "nJ"],
      [1, "pJ"],
    ]),
  seconds: (value) =>
    inUnits(value, [
      [1, "s"],
      [1e-3, "ms"],
      [1e-6, "µs"],
      [1e-9, "ns"],
    ]),
  text: String,
};

function shown(value, kind = "number") {
  if (value === null || value === undefined) return "–";
  return isNumber(value) ? (SHOWN[kind] || SHOWN.number)(value) : String(value);
}

function datum(value, kind = "number") {
  if (value === null || value === undefined) return el("span", { class: "nothing" }, "–");
  return isNumber(value)
    ? el("data", { value: String(value), title: plainNumber(value) }, shown(value, kind))
    : String(value);
}
