// Numbers as text, by kind. Each function writes what the function of the same name in display/numbers.py writes, which
// tests/display/test_numbers_of_the_page.py checks. A <data> element keeps the exact value of each number.

const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const ENERGY_UNITS = [
  [1e12, "J"],
  [1e9, "mJ"],
  [1e6, "µJ"],
  [1e3, "nJ"],
  [1, "pJ"],
];
const TIME_UNITS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const ROUNDS_UP = 0.9995; // from this share of 1000 on, three digits would show 1000

function isNumber(value) {
  return typeof value === "number" && !Number.isNaN(value);
}

function exact(value) {
  if (Number.isNaN(value)) return "not a number";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const isInteger = Number.isInteger(value) && Math.abs(value) < 1e15;
  return isInteger ? withMinus(withCommas(value.toFixed(0))) : significant(value, 6);
}

function significant(value, digits = 4) {
  if (!Number.isFinite(value) || value === 0) return exact(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const isPlain = Number(exponent) >= -4 && Number(exponent) < 6;
  const text = isPlain ? value.toFixed(Math.max(0, digits - 1 - Number(exponent))) : mantissa;
  const trimmed = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return withMinus(isPlain ? withCommas(trimmed) : `${trimmed}e${exponent}`);
}

function withPrefix(value, unit = "", digits = 3) {
  const found = Number.isFinite(value) && PREFIXES.find(([size]) => Math.abs(value) >= ROUNDS_UP * size);
  const [size, prefix] = found || [1, ""];
  return `${significant(value / size, digits)} ${prefix}${unit}`.trimEnd();
}

function percent(share) {
  return Number.isFinite(share) ? `${percentage(share)} %` : exact(share);
}

function points(share) {
  return Number.isFinite(share) ? `${share > 0 ? "+" : ""}${percentage(share)} points` : "";
}

function decibels(value) {
  if (value === Infinity) return "exact";
  return `${Number.isFinite(value) ? withMinus(value.toFixed(1)) : exact(value)} dB`;
}

function memory(bits) {
  return withPrefix(bits / 8, "B");
}

function energy(picojoules) {
  return inUnits(picojoules, ENERGY_UNITS);
}

function duration(seconds) {
  if (seconds === 0) return "0 s";
  if (!(seconds >= 60 && seconds < Infinity)) return inUnits(seconds, TIME_UNITS);
  const rounded = Math.floor(seconds + 0.5);
  const minutes = Math.floor(rounded / 60);
  return minutes >= 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes} min ${rounded % 60} s`;
}

function percentage(share) {
  const text = (100 * share).toFixed(2);
  return share !== 0 && Number(text) === 0 ? significant(100 * share, 2) : withMinus(text);
}

// In the largest unit of which there is at least one.
function inUnits(value, units, digits = 3) {
  const [size, unit] = units.find(([each]) => Math.abs(value) >= ROUNDS_UP * each) || units[units.length - 1];
  return `${significant(value / size, digits)} ${unit}`;
}

function withCommas(text) {
  const [whole, decimals] = text.split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (decimals === undefined ? "" : `.${decimals}`);
}

function withMinus(text) {
  return text.replaceAll("-", "−");
}

// The kinds of display/figures.py, and `exact`.
const SHOWN = {
  count: (value) => withPrefix(value),
  exact,
  number: (value) => significant(value),
  share: percent,
  points,
  decibel: decibels,
  memory,
  energy,
  seconds: duration,
};

function shown(value, kind = "number") {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? (SHOWN[kind] || SHOWN.number)(value) : String(value);
}

function datum(value, kind = "number") {
  if (value === null || value === undefined) return el("span", { class: "nothing" }, "–");
  return typeof value === "number"
    ? el("data", { value: String(value), title: exact(value) }, shown(value, kind))
    : String(value);
}
