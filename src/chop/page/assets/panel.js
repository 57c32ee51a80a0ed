// Details of the selected node.

const panel = { opener: null };
const BELOW_GRAPH = ["table", "bars"]; // a selection there moves the focus to the details, and closing them moves it back

function makePanel() {
  panel.body = el("div", { class: "panel-body" });
  panel.element = el(
    "aside",
    { id: "panel", "aria-label": "Details of a node", hidden: true, onkeydown: onPanelKey },
    panel.body,
  );
  on("select", ({ index, from, opener }) => {
    showPanel(index);
    if (from !== "panel") panel.opener = BELOW_GRAPH.includes(from) ? opener : null;
    if (index !== null && [...BELOW_GRAPH, "panel"].includes(from)) focusPanel();
  });
  return panel.element;
}

function onPanelKey(event) {
  if (event.key === "Escape") closePanel();
}

function closePanel() {
  const index = selected;
  select(null, "panel");
  if (panel.opener && panel.opener.getClientRects().length) panel.opener.focus();
  else if (index !== null) focusItem(visible(index), false);
}

function focusPanel() {
  panel.body.querySelector("h2").focus();
}

function showPanel(index) {
  panel.element.hidden = index === null;
  document.body.classList.toggle("with-panel", index !== null);
  if (index === null) return;
  const node = nodes[index];
  panel.body.replaceChildren(
    ...[
      el(
        "div",
        { class: "panel-head" },
        el("h2", { tabindex: -1 }, node.name),
        el(
          "button",
          {
            type: "button",
            class: "quiet",
            id: "panel-close",
            "aria-label": "Close the details",
            onclick: closePanel,
          },
          "×",
        ),
      ),
      el(
        "p",
        { class: "chips" },
        el("span", { class: "chip strong" }, node.op),
        node.target && el("span", { class: "chip" }, node.target),
      ),
      facts(node, index),
      ...node.tensors.map(tensorCard),
      costTable(node),
      errorTable(node),
      sensitivityTable(node),
      el(
        "p",
        { class: "hint" },
        [report.notes.values, report.notes.cost, report.notes.sensitivity].filter(Boolean).join(" "),
      ),
    ].filter(Boolean),
  );
  panel.element.scrollTop = 0;
}

function facts(node, index) {
  const rows = [["Module", node.path]];
  for (const [name, value] of Object.entries(node.settings)) rows.push([name, value]);
  rows.push(["From", links(node.inputs)], ["To", links(users[index])]);
  return el(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value && value.length !== 0)
      .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

function links(indices) {
  return indices.map((index) =>
    el("button", { type: "button", class: "link", onclick: () => select(index, "panel") }, nodes[index].name),
  );
}

function factTable(title, headers, rows) {
  if (!rows.length) return null;
  const head = headers.map((header) => el("th", { scope: "col" }, header));
  const body = rows.map(([name, ...cells]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      cells.map((cell) => el("td", {}, cell)),
    ),
  );
  const caption = el("caption", {}, title);
  return el(
    "table",
    { class: "small" },
    caption,
    el("thead", {}, el("tr", {}, el("td", {}), head)),
    el("tbody", {}, body),
  );
}

function costTable(node) {
  const both = Boolean(node.before && node.before.cost);
  const rows = MEASURES.filter((measure) => measure.cost && isNumber(measure.of(node))).map((measure) => [
    measure.title,
    ...(both ? [datum(measure.before(node), measure.kind)] : []),
    marked(datum(measure.of(node), measure.kind), measure.key),
  ]);
  return factTable("Cost", both ? ["before", "now"] : ["now"], rows);
}

function marked(element, key) {
  if (element instanceof Element) element.dataset.key = key;
  return element;
}

function errorTable(node) {
  if (!node.error) return null;
  const rows = [
    ["SQNR", "sqnr_db", "decibel"],
    ["Largest error", "max_error", "number"],
    ["Cosine similarity", "cosine", "number"],
  ];
  return factTable(
    "Error compared with the original",
    [""],
    rows.map(([name, key, kind]) => [name, marked(datum(node.error[key], kind), `error_${key}`)]),
  );
}

function sensitivityTable(node) {
  const { alone, all_but: allBut } = node.sensitivity || {};
  if (!alone && !allBut) return null;
  const rows = [
    ["SQNR of the node", "sqnr_db", "decibel"],
    ["SQNR of the output", "output_sqnr_db", "decibel"],
    ["Change in loss", "loss_change", "number"],
    ["Change in accuracy", "accuracy_change", "points"],
  ];
  const cell = (values, key, kind) => marked(datum(values && values[key], kind), key);
  return factTable(
    "Sensitivity",
    ["only this node quantised", "all other nodes quantised"],
    rows.map(([name, key, kind]) => [name, cell(alone, key, kind), cell(allBut, key, kind)]),
  );
}

function tensorCard(tensor) {
  const formats =
    tensor.before && tensor.before !== tensor.format
      ? [chip(tensor.before), " → ", chip(tensor.format)]
      : chip(tensor.format);
  const found = tensor.histogram === null ? null : report.histograms[tensor.histogram];
  const histogram = found && found.counts.length ? found : null;
  return el(
    "section",
    { class: "tensor", "data-tensor": tensor.name },
    el("h3", {}, tensor.name, el("span", { class: "shape" }, `[${tensor.shape.join(", ")}] ${tensor.dtype}`)),
    el(
      "p",
      { class: "chips" },
      formats,
      el("span", { class: "muted" }, `${shown(tensor.bits)} ${tensor.bits === 1 ? "bit" : "bits"} per element`),
    ),
    histogram && histogramPlot(tensor, histogram),
    tensor.representable && el("p", { class: "hint" }, representableInWords(tensor.representable)),
    histogram && statistics(tensor, histogram),
  );
}

function chip(text) {
  return el("span", { class: text === "float" ? "chip" : "chip strong" }, text);
}

function statistics(tensor, histogram) {
  const rows = [
    ["values", histogram.count, "exact"],
    ["min", histogram.low, "number"],
    ["max", histogram.high, "number"],
    ["mean", histogram.mean, "number"],
    ["median", histogram.median, "number"],
    ["std. deviation", histogram.standard_deviation, "number"],
    ["zeros", histogram.zeros, "share"],
  ];
  if (histogram.num_not_finite) rows.push(["not finite", histogram.num_not_finite, "exact"]);
  const rounding = tensor.rounding;
  if (rounding)
    rows.push(
      ["saturated", rounding.saturated, "share"],
      ["rounded to 0", rounding.zeroed, "share"],
      ["SQNR", rounding.sqnr_db, "decibel"],
    );
  if (rounding && rounding.count < numDrawn(histogram))
    rows.push(["values rounded", rounding.count, "exact"]);
  return el(
    "dl",
    { class: "statistics" },
    rows.map(([name, value, kind]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, marked(datum(value, kind), name))),
    ),
  );
}
