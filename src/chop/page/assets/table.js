// Table of all layers, with sorting and filtering. It is also the accessible form of the graph.

const MAX_ROWS_AT_FIRST = 200;
const MORE_COLUMNS = [
  "parameters",
  "activation_bits",
  "energy_pj",
  "max_error",
  "alone_loss_change",
  "alone_accuracy_change",
];

const table = { sort: null, descending: false, all: false, limit: MAX_ROWS_AT_FIRST };

function makeTable() {
  table.columns = columns();
  table.filter = el("input", {
    type: "search",
    id: "filter",
    placeholder: "Filter layers",
    autocomplete: "off",
    spellcheck: "false",
    oninput: showRows,
  });
  table.count = el("output", { id: "filter-count", for: "filter" });
  const everything = el("input", {
    type: "checkbox",
    id: "all-nodes",
    onchange: () => {
      table.all = everything.checked;
      showRows();
    },
  });
  const head = el("tr", {}, table.columns.map(headerCell));
  table.rows = nodes.map(row);
  table.body = el("tbody", {});
  table.more = el("button", { type: "button", id: "all-rows", onclick: showAllRows });
  const caption = el("caption", { class: "unseen" }, "Nodes of the graph; the header buttons sort the rows");
  on("select", markSelectedRow);
  const made = section(
    "layers",
    "Layers",
    null,
    el(
      "div",
      { class: "toolbar" },
      el(
        "label",
        { class: "field grow" },
        el("span", { class: "unseen" }, "Filter layers"),
        table.filter,
        table.count,
      ),
      el("label", { class: "field" }, everything, el("span", {}, "include inputs and data movement")),
      table.columns.some((column) => column.isMore) && moreColumns(),
    ),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of layers" },
      el("table", { id: "table" }, caption, el("thead", {}, head), table.body),
    ),
    table.more,
  );
  showRows();
  return made;
}

function moreColumns() {
  const box = el("input", {
    type: "checkbox",
    id: "all-columns",
    onchange: () => byId("table").classList.toggle("all-columns", box.checked),
  });
  return el("label", { class: "field" }, box, el("span", {}, "all columns"));
}

function cellClass(column) {
  return `${isText(column) ? "text" : "figure"}${column.isMore ? " more" : ""}`;
}

// The value in the original graph, if it was another one.
function valueBefore(column, node) {
  const before = column.before ? column.before(node) : null;
  const isOther = before !== null && before !== undefined && before !== column.of(node);
  if (!isOther) return null;
  return el("span", { class: "was" }, "was ", column.kind === "text" ? before : datum(before, column.kind));
}

function columns() {
  const found = [
    { key: "index", title: "#", kind: "exact", of: (node, index) => index },
    { key: "name", title: "Layer", kind: "name", of: (node) => node.name },
    { key: "op", title: "Op", kind: "text", of: (node) => node.op },
    { key: "shape", title: "Output shape", kind: "text", of: (node) => node.shape && `[${node.shape.join(", ")}]` },
    {
      key: "formats",
      title: "Weight format",
      kind: "text",
      of: (node) => node.weight_format,
      before: (node) => node.before && node.before.weight_format,
    },
    {
      key: "data_formats",
      title: "Activation format",
      kind: "text",
      of: (node) => node.data_format,
      before: (node) => node.before && node.before.data_format,
    },
  ].filter((column) => nodes.some((node, index) => column.of(node, index)));
  const wanted = [
    "bits_per_weight",
    "bits_per_input",
    "macs",
    "bitops",
    "parameters",
    "weight_bits",
    "activation_bits",
    "energy_pj",
    "sqnr_db",
    "max_error",
    "alone_output_sqnr_db",
    "alone_loss_change",
    "alone_accuracy_change",
  ];
  const measures = measuresPresent().filter((measure) => wanted.includes(measure.key));
  return [...found, ...measures.map((measure) => ({ ...measure, isMore: MORE_COLUMNS.includes(measure.key) }))];
}

function headerCell(column) {
  const button = el("button", { type: "button", title: column.help, onclick: () => sortBy(column) }, column.title);
  column.header = el(
    "th",
    { scope: "col", "data-column": column.key, "aria-sort": "none", class: cellClass(column) },
    button,
  );
  return column.header;
}

function isText(column) {
  return column.kind === "text" || column.kind === "name";
}

function row(node, index) {
  const text = [node.name, node.path, node.op, node.target, node.weight_format, node.data_format]
    .join(" ")
    .toLowerCase();
  return {
    index,
    text,
    values: table.columns.map((column) => column.of(node, index)),
    isLayer: node.quantizable || Boolean(node.cost && node.cost.macs),
    element: null, // made when it is shown
  };
}

function rowElement({ index, values }) {
  const cells = table.columns.map((column, i) => {
    if (column.kind !== "name")
      return el(
        "td",
        { "data-column": column.key, class: cellClass(column) },
        column.kind === "text" ? values[i] || "–" : datum(values[i], column.kind),
        valueBefore(column, nodes[index]),
      );
    return el(
      "th",
      { scope: "row" },
      el("button", { type: "button", class: "link", onclick: () => select(index, "table") }, values[i]),
    );
  });
  return el("tr", { "data-node": nodes[index].name }, cells);
}

function sortBy(column) {
  table.descending = table.sort === column ? !table.descending : !isText(column) && column.key !== "index";
  table.sort = column;
  const at = table.columns.indexOf(column);
  const sign = table.descending ? -1 : 1;
  table.rows.sort((a, b) => compare(a.values[at], b.values[at], sign) || a.index - b.index);
  for (const each of table.columns)
    each.header.setAttribute(
      "aria-sort",
      each === column ? (table.descending ? "descending" : "ascending") : "none",
    );
  showRows();
  announce(`sorted by ${column.title}, ${table.descending ? "descending" : "ascending"}`);
}

// Missing values come last in both directions.
function compare(a, b, sign) {
  const [hasA, hasB] = [a, b].map((value) => value !== null && value !== undefined && !Number.isNaN(value));
  if (!hasA || !hasB) return Number(hasB) - Number(hasA);
  return sign * (typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : Number(a > b));
}

// Show the rows that match the filter; of very many only the first, because a long table makes the page slow.
function showRows() {
  const words = table.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = table.rows.filter(
    (each) => (table.all || each.isLayer) && words.every((word) => each.text.includes(word)),
  );
  table.shown = kept.slice(0, table.limit);
  for (const each of table.shown) each.element ||= rowElement(each);
  table.body.replaceChildren(...table.shown.map((each) => each.element));
  markSelectedRow({ index: selected });
  table.count.textContent = `${kept.length} of ${table.rows.length}`;
  table.more.hidden = kept.length <= table.limit;
  table.more.textContent = `Show all ${kept.length} rows`;
}

function showAllRows() {
  table.limit = Infinity;
  showRows();
  announce(`${table.shown.length} rows are shown`);
}

function markSelectedRow({ index }) {
  for (const each of table.shown) each.element.classList.toggle("selected", each.index === index);
}
