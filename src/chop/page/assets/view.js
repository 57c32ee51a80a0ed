// Zooming and panning by wheel, touch, buttons and keys.

const ZOOM = { min: 0.05, max: 3, step: 1.25 };

function makeView(canvas, layer) {
  const view = { x: 0, y: 0, scale: 1, width: 1, height: 1 };
  const apply = () => layer.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
  const size = () => canvas.getBoundingClientRect();

  view.zoom = (factor, at) => {
    const box = size();
    const [px, py] = at ? [at.clientX - box.left, at.clientY - box.top] : [box.width / 2, box.height / 2];
    const scale = Math.min(ZOOM.max, Math.max(ZOOM.min, view.scale * factor));
    view.x = px - ((px - view.x) * scale) / view.scale;
    view.y = py - ((py - view.y) * scale) / view.scale;
    view.scale = scale;
    apply();
  };
  view.pan = (dx, dy) => {
    view.x += dx;
    view.y += dy;
    apply();
  };
  // The scale at which the whole drawing is visible.
  view.fittingScale = () => {
    const box = size();
    return Math.min((box.width - 40) / view.width, (box.height - 40) / view.height, 1.15);
  };
  view.fit = (minScale = ZOOM.min) => {
    const box = size();
    view.scale = Math.max(view.fittingScale(), minScale);
    view.x = (box.width - view.width * view.scale) / 2;
    view.y = Math.max(20, (box.height - view.height * view.scale) / 2);
    apply();
  };
  view.centre = (x, y) => {
    const box = size();
    view.scale = Math.max(view.scale, 0.7);
    view.x = box.width / 2 - x * view.scale;
    view.y = box.height / 2 - y * view.scale;
    apply();
  };
  // Whether panning by `dy` reveals more of the drawing rather than empty space.
  view.canPan = (dy) => (dy < 0 ? view.y < 20 : view.y + view.height * view.scale > size().height - 20);
  listenToWheel(canvas, view);
  listenToPointers(canvas, view);
  return view;
}

function listenToWheel(canvas, view) {
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        view.zoom(Math.exp(-event.deltaY * 0.0035), event);
      } else if (event.deltaX || view.canPan(event.deltaY)) {
        event.preventDefault(); // at the end of the drawing the page scrolls
        view.pan(-event.deltaX, -event.deltaY);
      }
    },
    { passive: false },
  );
}

function listenToPointers(canvas, view) {
  const down = new Map();
  let moved = 0;
  const spread = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, event);
    moved = 0;
  });
  window.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const apart = down.size === 2 ? spread() : 0;
    down.set(event.pointerId, event);
    const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
    moved += Math.abs(dx) + Math.abs(dy);
    if (down.size === 2) view.zoom(spread() / apart, event);
    else if (moved > 3) view.pan(dx, dy);
    canvas.classList.toggle("dragged", moved > 3);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, (event) => {
      down.delete(event.pointerId);
      setTimeout(() => canvas.classList.remove("dragged"), 0);
    });
  }
  // The end of a drag is not a click.
  canvas.addEventListener("click", (event) => moved > 3 && event.stopPropagation(), true);
}
