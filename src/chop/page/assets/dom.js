// Creates elements. Content is always set as text, so that names from a model are never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function section(id, title, lead, ...children) {
  const heading = el("h2", { id: `${id}-title` }, title);
  return el(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    heading,
    lead && el("p", { class: "lead" }, lead),
    children,
  );
}

function announce(text) {
  byId("status").textContent = text;
}

function picker(id, label, choices, onchange) {
  const options = choices.map(([value, text]) => el("option", { value }, text));
  const select = el("select", { id, onchange: () => onchange(select.value) }, options);
  return el("label", { class: "field" }, el("span", {}, label), select);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
