// The graph as boxes and arrows, with modules that open and close.

const MAX_BOXES_AT_FIRST = 40;
const MIN_SCALE_AT_FIRST = 0.65; // smaller text is hard to read
const HEIGHTS = { min: 320, ofWindow: 0.95, margin: 40 };
const MAX_BOXES = 700;

const graph = { open: new Set(), matches: new Set(), boxes: new Map(), focused: null, way: null };

function makeGraph() {
  graph.root = buildTree();
  graph.items = [];
  const collect = (item) => (item.isGroup ? item.children.forEach(collect) : (graph.items[item.index] = item));
  collect(graph.root);
  graph.layer = svg("g", {});
  graph.canvas = svg(
    "svg",
    { id: "canvas", role: "group", "aria-label": "Graph of the model", "aria-describedby": "graph-help" },
    arrowHead("arrow"),
    arrowHead("arrow-near"),
    graph.layer,
  );
  graph.view = makeView(graph.canvas, graph.layer);
  graph.canvas.addEventListener("keydown", onGraphKey);
  graph.ways = colourings();
  graph.way = graph.ways[0][2];
  const help = el(
    "p",
    { id: "graph-help", class: "hint" },
    "Click a node for its details, or a module to open or close it. Drag or scroll to move, Ctrl + scroll or + and − to zoom, 0 to fit. " +
      "Arrow keys follow the arrows, Enter opens, Backspace closes the surrounding module, / searches.",
  );
  graph.legend = el("ul", { id: "legend", "aria-label": "Colours" });
  on("select", onSelect);
  return section(
    "graph",
    "Graph",
    null,
    toolbar(),
    el("div", { class: "canvas" }, graph.canvas),
    graph.legend,
    help,
  );
}

function arrowHead(id) {
  const marker = svg("marker", {
    id,
    viewBox: "0 0 8 8",
    refX: 7,
    refY: 4,
    markerWidth: 7,
    markerHeight: 7,
    orient: "auto",
  });
  marker.append(svg("path", { d: "M0,0.5L7.5,4L0,7.5z", class: id }));
  return svg("defs", {}, marker);
}

function toolbar() {
  const button = (id, text, label, action) =>
    el("button", { type: "button", id, title: label, "aria-label": label, onclick: action }, text);
  const hasGroups = graph.root.children.some((child) => child.isGroup);
  return el(
    "div",
    { class: "toolbar" },
    makeSearch(),
    picker(
      "colour-by",
      "Colour",
      graph.ways.map(([key, title]) => [key, title]),
      setColouring,
    ),
    el("span", { class: "spring" }),
    hasGroups && button("open-all", "Open all", "Open all modules", openAll),
    hasGroups && button("close-all", "Close all", "Close all modules", closeAll),
    el(
      "span",
      { class: "joined" },
      button("zoom-out", "−", "Zoom out", () => graph.view.zoom(1 / ZOOM.step)),
      button("zoom-in", "+", "Zoom in", () => graph.view.zoom(ZOOM.step)),
      button("fit", "Fit", "Fit the graph to the window", () => graph.view.fit()),
    ),
  );
}

function setColouring(key) {
  graph.way = graph.ways.find(([each]) => each === key)[2];
  drawGraph();
}

// Open modules from the outside in while at most `limit` boxes are visible.
function openUpTo(limit) {
  graph.open.clear();
  let visible = graph.root.children.length;
  let level = graph.root.children.filter((child) => child.isGroup);
  while (level.length) {
    const next = [];
    for (const group of level) {
      if (visible + group.children.length - 1 > limit) continue;
      graph.open.add(group.id);
      visible += group.children.length - 1;
      next.push(...group.children.filter((child) => child.isGroup));
    }
    level = next;
  }
}

// Draw the graph so that all of it is visible, with as many open modules as can be read, in a box of its height.
function drawReadable() {
  for (let limit = MAX_BOXES_AT_FIRST; ; limit = Math.floor(limit / 2)) {
    openUpTo(limit);
    drawGraph();
    const height = Math.min(HEIGHTS.ofWindow * innerHeight, Math.max(HEIGHTS.min, graph.view.height + HEIGHTS.margin));
    graph.canvas.parentElement.style.setProperty("--drawn", `${height}px`);
    if (limit === 0 || graph.view.fittingScale() >= MIN_SCALE_AT_FIRST) break;
  }
  graph.view.fit();
}

function openAll() {
  openUpTo(MAX_BOXES);
  drawGraph();
  graph.view.fit(0.3);
  const closed = [...graph.boxes.keys()].filter((item) => item.isGroup && !graph.open.has(item.id)).length;
  announce(
    closed
      ? `${closed} modules stay closed: the graph shows at most ${MAX_BOXES} boxes`
      : "All modules are open",
  );
}

function closeAll() {
  graph.open.clear();
  drawGraph();
  graph.view.fit(0.5);
  announce("All modules are closed");
}

function drawGraph() {
  const laid = layoutGroup(graph.root, graph.open, graph.items);
  Object.assign(graph.view, { width: laid.width, height: laid.height });
  graph.boxes.clear();
  graph.lines = [];
  const under = svg("g", { class: "frames" });
  const lines = svg("g", { class: "edges", "aria-hidden": "true" });
  const over = svg("g", { class: "boxes" });
  drawLevel(laid, 0, 0, { under, lines, over });
  graph.layer.replaceChildren(under, lines, over);
  graph.legend.replaceChildren(
    ...graph.way.legend.map(([name, text]) => el("li", {}, el("i", { class: `swatch ${name}` }), text)),
  );
  if (!graph.boxes.has(graph.focused)) graph.focused = graph.boxes.keys().next().value;
  markState();
}

function drawLevel(laid, ox, oy, layers) {
  for (const edge of laid.edges) {
    const points = edge.points.map((p) => ({ x: p.x + ox, y: p.y + oy }));
    const line = svg("path", { d: curve(points), "marker-end": edge.arrow ? "url(#arrow)" : null });
    layers.lines.append(line);
    graph.lines.push({ line, from: edge.from, to: edge.to, arrow: edge.arrow });
  }
  for (const box of laid.boxes) {
    const [x, y] = [box.x + ox, box.y + oy];
    if (box.inner) {
      layers.under.append(frame(box, x, y));
      drawLevel(box.inner, x, y, layers);
    }
    const element = box.inner ? frameTitle(box, x, y) : boxElement(box, x, y);
    layers.over.append(element);
    graph.boxes.set(box.item, { element, x, y, width: box.width, height: box.inner ? FRAME.top : box.height });
  }
}

function frame(box, x, y) {
  return svg("rect", {
    class: `frame depth${(ancestors(box.item).length - 1) % 2}`,
    x,
    y,
    width: box.width,
    height: box.height,
    rx: 10,
  });
}

function frameTitle(box, x, y) {
  const item = box.item;
  const element = svg("g", {
    class: "box title",
    role: "button",
    tabindex: -1,
    "aria-expanded": "true",
    transform: `translate(${x},${y})`,
    "aria-label": `module ${item.id}, ${item.size} nodes, open`,
    onclick: () => toggle(item),
  });
  element.append(
    svg("rect", {
      class: "grip",
      x: 4,
      y: 4,
      width: Math.min(box.width - 8, textWidth(item.label, NAME) + 30),
      height: 22,
      rx: 6,
    }),
    svg("path", { class: "sign", d: "M12,12l4,5l4,-5z" }),
    svg("text", { class: "name", x: 26, y: 19 }, item.label),
  );
  return element;
}

function boxElement(box, x, y) {
  const item = box.item;
  const node = item.isGroup ? null : nodes[item.index];
  const kind = item.isGroup ? "group" : isBorder(node) ? "border" : graph.way.classOf(node);
  const element = svg("g", {
    class: `box ${kind}`,
    role: "button",
    tabindex: -1,
    transform: `translate(${x},${y})`,
    "data-node": node && node.name,
    "data-group": item.isGroup ? item.id : null,
    "aria-label": spoken(item),
    "aria-expanded": item.isGroup ? "false" : null,
    onclick: () => activate(item),
  });
  const { width, height } = box;
  if (item.isGroup) element.append(svg("rect", { class: "behind", x: 4, y: 4, width, height, rx: 8 }));
  element.append(
    svg("rect", { class: "face", width, height, rx: item.isGroup ? 8 : isBorder(node) ? height / 2 : 6 }),
  );
  if (!item.isGroup && !isBorder(node))
    element.append(
      svg("path", { class: "stripe", d: `M5,0H6V${height}H5A5,5 0 0 1 0,${height - 6}V6A6,6 0 0 1 5,0z` }),
    );
  const left = leftOf(item);
  if (item.isGroup) element.append(svg("path", { class: "sign", d: "M11,15l5,4l-5,4z" }));
  element.append(
    boxLabel(item, left, width),
    svg("text", { class: "detail", x: left, y: 36 }, shortened(detailOf(item), width - left - 12, DETAIL)),
    svg("title", {}, node ? node.name : item.id),
  );
  return element;
}

function boxLabel(item, left, width) {
  const kind = kindOf(item);
  const name = shortened(item.label, width - left - 18 - textWidth(kind, KIND), NAME);
  return svg("text", { class: "name", x: left, y: 20 }, name, svg("tspan", { class: "op", dx: 6 }, kind));
}

function spoken(item) {
  if (item.isGroup) return `module ${item.id}, ${item.size} nodes, closed`;
  const node = nodes[item.index];
  return [
    node.name,
    node.op,
    node.weight_format || node.data_format,
    `${node.inputs.length} in, ${users[item.index].length} out`,
  ]
    .filter(Boolean)
    .join(", ");
}

function activate(item) {
  if (item.isGroup) toggle(item);
  else {
    focusItem(item, false);
    select(item.index, "graph");
  }
}

// Open or close a module without moving it on the screen.
function toggle(item) {
  const before = graph.boxes.get(item);
  const isOpen = graph.open.has(item.id);
  if (isOpen) graph.open.delete(item.id);
  else graph.open.add(item.id);
  graph.focused = item;
  drawGraph();
  const after = graph.boxes.get(item);
  graph.view.pan((before.x - after.x) * graph.view.scale, (before.y - after.y) * graph.view.scale);
  after.element.focus({ preventScroll: true });
  announce(`${item.id} is ${isOpen ? "closed" : "open"}`);
}

// The visible box of a node: its own, or that of the outermost closed module around it.
function visible(index) {
  const closed = ancestors(graph.items[index]).filter((group) => group.parent && !graph.open.has(group.id));
  return closed.length ? closed[closed.length - 1] : graph.items[index];
}

function reveal(index) {
  for (const group of ancestors(graph.items[index])) if (group.parent) graph.open.add(group.id);
  drawGraph();
  const box = graph.boxes.get(graph.items[index]);
  graph.view.centre(box.x + box.width / 2, box.y + box.height / 2);
  graph.focused = graph.items[index];
}

function onSelect({ index, from }) {
  if (index !== null && from !== "graph") reveal(index);
  markState();
}

// Update classes and the tab stop after a selection, a search or a change of focus.
function markState() {
  const hits = graph.matches.size > 0;
  const seen = selected === null ? null : visible(selected);
  for (const [item, { element }] of graph.boxes) {
    const isOpen = item.isGroup && graph.open.has(item.id);
    const isHit = hits && !isOpen && indicesIn(item).some((index) => graph.matches.has(index));
    element.classList.toggle("selected", item === seen && !isOpen);
    element.classList.toggle("match", isHit);
    element.classList.toggle("dimmed", hits && !isHit && !isOpen);
    element.setAttribute("tabindex", item === graph.focused ? 0 : -1);
    if (!item.isGroup) element.setAttribute("aria-pressed", String(item === seen));
  }
  for (const { line, from, to, arrow } of graph.lines) {
    const near = seen !== null && (from === seen || to === seen);
    line.classList.toggle("near", near);
    if (arrow) line.setAttribute("marker-end", near ? "url(#arrow-near)" : "url(#arrow)");
  }
}

function focusItem(item, scroll = true) {
  graph.focused = item;
  const box = graph.boxes.get(item);
  markState();
  box.element.focus({ preventScroll: true });
  if (!scroll) return;
  const { x, y, scale } = graph.view;
  const area = graph.canvas.getBoundingClientRect();
  const [left, top] = [box.x * scale + x, box.y * scale + y];
  if (left < 0 || top < 0 || left + box.width * scale > area.width || top + box.height * scale > area.height) {
    graph.view.centre(box.x + box.width / 2, box.y + box.height / 2);
  }
}
