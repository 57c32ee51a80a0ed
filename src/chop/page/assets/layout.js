// Positions of boxes and arrows. Each open module is laid out separately (dagre) and is one box of the level above:
// opening a module does not change the inside of others, and only visible modules take time.

const BOX = { height: 46, narrow: 110, wide: 270 };
const FRAME = { x: 14, top: 30, bottom: 14 };

const FONT = getComputedStyle(document.body).fontFamily;
const pen = document.createElement("canvas").getContext("2d");

// The width of text in the font of the page; `style` is as in graph.css.
function textWidth(text, style) {
  const font = `${style} ${FONT}`;
  if (pen.font !== font) pen.font = font;
  return pen.measureText(text).width;
}

const NAME = "600 13px";
const KIND = "400 12px";
const DETAIL = "400 11px";

function leftOf(item) {
  return item.isGroup ? 26 : 16;
}

function boxWidth(item) {
  const label = textWidth(item.label, NAME) + 6 + textWidth(kindOf(item), KIND);
  return Math.min(
    BOX.wide,
    Math.max(BOX.narrow, leftOf(item) + Math.max(label, textWidth(detailOf(item), DETAIL)) + 14),
  );
}

function shortened(text, width, style) {
  let short = text;
  while (short.length > 1 && textWidth(short, style) > width) short = `${short.slice(0, -2)}…`;
  return short;
}

// The text after the name: the op, or the number of nodes.
function kindOf(item) {
  if (item.isGroup) return `${item.size} nodes`;
  const node = nodes[item.index];
  const kind = { placeholder: "input", get_attr: "constant", output: "" }[node.kind];
  return kind === undefined ? node.op : kind;
}

// The second line: format and output shape; for a module, its most frequent ops.
function detailOf(item) {
  if (item.isGroup) return opsIn(item);
  const node = nodes[item.index];
  const format = [node.weight_format, node.data_format].find((each) => each && each !== "float");
  return [format, node.shape && `[${node.shape.join(", ")}]`].filter(Boolean).join("  ");
}

function opsIn(group) {
  const counts = new Map();
  for (const index of indicesIn(group)) counts.set(nodes[index].op, (counts.get(nodes[index].op) || 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 2);
  return most.map(([op, count]) => (count > 1 ? `${count} ${op}` : op)).join(", ") + (counts.size > 2 ? ", …" : "");
}

// The child of `group` that contains a node; null if the node is outside.
function childHolding(group, item) {
  let inner = item;
  while (inner && inner.parent !== group) inner = inner.parent;
  return inner;
}

function edgesWithin(group, itemOf) {
  const found = new Map();
  const add = (from, to) => found.set(`${from.key}>${to.key}`, [from, to]);
  for (const index of indicesIn(group)) {
    const here = childHolding(group, itemOf[index]);
    for (const input of nodes[index].inputs) {
      const source = childHolding(group, itemOf[input]);
      if (source === null) add(ENTRY, here);
      else if (source !== here) add(source, here);
    }
    if (users[index].some((user) => childHolding(group, itemOf[user]) === null)) add(here, EXIT);
  }
  return [...found.values()];
}

const ENTRY = { key: "entry" };
const EXIT = { key: "exit" };

// The layout of a group, relative to its corner: {width, height, boxes, edges, entry, exit}.
function layoutGroup(group, open, itemOf) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 20, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  const inner = new Map();
  group.children.forEach((child, i) => {
    child.key = `c${i}`;
    const laid = child.isGroup && open.has(child.id) ? layoutGroup(child, open, itemOf) : null;
    if (laid) inner.set(child.key, laid);
    graph.setNode(
      child.key,
      laid ? { width: laid.width, height: laid.height } : { width: boxWidth(child), height: BOX.height },
    );
  });
  const edges = edgesWithin(group, itemOf);
  for (const port of [ENTRY, EXIT]) {
    if (edges.some((edge) => edge.includes(port))) graph.setNode(port.key, { width: 1, height: 1 });
  }
  edges.forEach(([from, to]) => graph.setEdge(from.key, to.key));
  dagre.layout(graph);
  return placed(group, graph, inner, edges);
}

function placed(group, graph, inner, edges) {
  const isRoot = group.parent === null;
  const dx = isRoot ? 0 : FRAME.x;
  const dy = isRoot ? 0 : FRAME.top;
  const size = graph.graph();
  const boxes = group.children.map((child) => {
    const { x, y, width, height } = graph.node(child.key);
    return {
      item: child,
      x: x - width / 2 + dx,
      y: y - height / 2 + dy,
      width,
      height,
      inner: inner.get(child.key),
    };
  });
  const width = Math.max(size.width + 2 * dx, isRoot ? 0 : textWidth(group.label, NAME) + 60);
  const height = size.height + dy + (isRoot ? 0 : FRAME.bottom);
  const port = (key, y) => (graph.hasNode(key) ? { x: graph.node(key).x + dx, y } : null);
  const laid = { width, height, boxes, entry: port("entry", 0), exit: port("exit", height) };
  const byKey = new Map(boxes.map((box) => [box.item.key, box]));
  laid.edges = edges.map(([from, to]) => {
    const bends = graph
      .edge(from.key, to.key)
      .points.slice(1, -1)
      .map((p) => ({ x: p.x + dx, y: p.y + dy }));
    const start = from === ENTRY ? laid.entry : outOf(byKey.get(from.key));
    const end = to === EXIT ? laid.exit : into(byKey.get(to.key));
    return { from, to, points: [start, ...bends, end], arrow: to !== EXIT };
  });
  return laid;
}

function outOf(box) {
  const x = box.inner && box.inner.exit ? box.x + box.inner.exit.x : box.x + box.width / 2;
  return { x, y: box.y + box.height };
}

function into(box) {
  const x = box.inner && box.inner.entry ? box.x + box.inner.entry.x : box.x + box.width / 2;
  return { x, y: box.y };
}

// A smooth curve through points that is vertical at each of them.
function curve(points) {
  let path = `M${points[0].x},${points[0].y}`;
  for (let i = 1; i < points.length; i += 1) {
    const [a, b] = [points[i - 1], points[i]];
    const middle = (a.y + b.y) / 2;
    path += `C${a.x},${middle} ${b.x},${middle} ${b.x},${b.y}`;
  }
  return path;
}
