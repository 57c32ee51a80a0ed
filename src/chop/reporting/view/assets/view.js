// The pages work without this script; it adds sorting, filtering and copying of commands.
"use strict";

const byId = (id) => document.getElementById(id);
const THEMES = { auto: "System colours", light: "Light", dark: "Dark" };

function announce(text) {
  byId("status").textContent = text;
}

function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  const button = byId("theme");
  button.hidden = false;
  button.textContent = THEMES[name];
  button.setAttribute("aria-label", `Colours: ${THEMES[name]}; change`);
  localStorage.setItem("theme", name);
}

function startTheme() {
  const names = Object.keys(THEMES);
  const kept = () => (names.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
  byId("theme").addEventListener("click", () => setTheme(names[(names.indexOf(kept()) + 1) % names.length]));
  setTheme(kept());
}

// Missing values come last in both directions.
function compare(a, b, isNumber, sign) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return sign * (isNumber ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
}

function sortBy(header) {
  const body = byId("table").tBodies[0];
  const at = header.cellIndex;
  const isNumber = header.dataset.sort === "number";
  const now = header.getAttribute("aria-sort");
  const descending = now === "none" ? isNumber : now === "ascending";
  const value = (row) => row.cells[at].getAttribute("data-value");
  const rows = [...body.rows].sort((a, b) => compare(value(a), value(b), isNumber, descending ? -1 : 1));
  for (const each of header.parentElement.cells) if (each.dataset.sort) each.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  body.append(...rows);
  announce(`sorted by ${header.textContent}, ${descending ? "descending" : "ascending"}`);
}

function startSorting() {
  for (const header of byId("table").tHead.rows[0].cells) {
    if (!header.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(header));
    header.append(button);
    header.setAttribute("aria-sort", "none");
  }
}

function startFilter() {
  const input = byId("filter");
  const rows = [...byId("table").tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, i) => { row.hidden = !words.every((word) => texts[i].includes(word)); });
    byId("filter-count").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  input.addEventListener("input", filter);
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  filter(); // the browser may have restored the text
}

function startShortcut() {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input[type=search], select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    byId("filter").focus();
  });
}

function startChoice() {
  const boxes = [...document.querySelectorAll("form input[name=run]")];
  const max = Number(byId("compare").dataset.max);
  const choose = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.closest("tr")?.classList.toggle("selected", box.checked);
    byId("compare").disabled = chosen < 2 || chosen > max;
    byId("chosen").textContent = chosen === 0 ? "select two or more runs" : chosen > max ? `${chosen} selected, at most ${max}` : `${chosen} selected`;
  };
  boxes.forEach((box) => box.addEventListener("change", choose));
  window.addEventListener("pageshow", choose);
}

function startCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const done = await navigator.clipboard.writeText(button.dataset.copy).then(() => "Copied", () => "Copying is not allowed");
      announce(done);
      button.textContent = done;
    });
  }
}

startTheme();
startCopying();
if (byId("table")) {
  if (!byId("pages")) { // else the server sorts and filters
    startSorting();
    startFilter();
  }
  startShortcut();
  startChoice();
}
document.documentElement.dataset.ready = "yes";
