// Keyboard control of the graph.

const DIRECTIONS = { ArrowLeft: -1, ArrowRight: 1 };

function onGraphKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = graph.focused;
  const act = {
    Enter: () => (item.isGroup ? toggle(item) : openDetails(item)),
    " ": () => activate(item),
    ArrowDown: () => follow(item, users),
    ArrowUp: () =>
      follow(
        item,
        nodes.map((node) => node.inputs),
      ),
    ArrowLeft: () => sideways(item, DIRECTIONS.ArrowLeft),
    ArrowRight: () => sideways(item, DIRECTIONS.ArrowRight),
    Backspace: () => closeAround(item),
    Home: () => focusItem(visible(0)),
    End: () => focusItem(visible(nodes.length - 1)),
    "+": () => graph.view.zoom(ZOOM.step),
    "=": () => graph.view.zoom(ZOOM.step),
    "-": () => graph.view.zoom(1 / ZOOM.step),
    0: () => graph.view.fit(),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

// The first Enter selects a node, the second moves the focus to its details.
function openDetails(item) {
  if (selected === item.index) focusPanel();
  else activate(item);
}

// Focus the nearest of the boxes that the node is connected to.
function follow(item, neighbours) {
  const inside = indicesIn(item);
  const found = new Set(inside.flatMap((index) => neighbours[index]).map(visible));
  found.delete(item);
  const here = graph.boxes.get(item);
  const distance = (other) => {
    const box = graph.boxes.get(other);
    return Math.abs(box.y - here.y) * 2 + Math.abs(box.x - here.x);
  };
  const nearest = [...found]
    .filter((other) => !inside.includes(other.index))
    .sort((a, b) => distance(a) - distance(b))[0];
  if (nearest) focusItem(nearest);
}

function sideways(item, direction) {
  const here = graph.boxes.get(item);
  const middle = (box) => box.x + box.width / 2;
  const candidates = [...graph.boxes]
    .filter(([other, box]) => other !== item && (middle(box) - middle(here)) * direction > 1)
    .map(([other, box]) => [Math.abs(middle(box) - middle(here)) + 3 * Math.abs(box.y - here.y), other])
    .sort((a, b) => a[0] - b[0]);
  if (candidates.length) focusItem(candidates[0][1]);
}

function closeAround(item) {
  const around = item.isGroup && graph.open.has(item.id) ? item : item.parent;
  if (around && around.parent) toggle(around);
}
