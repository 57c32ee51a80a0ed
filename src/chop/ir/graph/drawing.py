"""A drawing of a graph as SVG, for notebooks."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import fx

from chop.ir.graph.meta import NodeMeta

BOX_WIDTH, BOX_HEIGHT = 210, 38
GAP_X, GAP_Y = 20, 26
FLOAT_COLOUR, QUANTIZED_COLOUR, OTHER_COLOUR = "#ffffff", "#cfe3f5", "#eeeeee"


@dataclass(frozen=True)
class Drawing:
    """A graph from top to bottom: a box per node with its op and its formats; quantised nodes are blue."""

    svg: str

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Drawing({len(self.svg)} characters of SVG; a notebook shows it)"


def draw_nodes(metas: Sequence[NodeMeta]) -> Drawing:
    """Return the drawing of the nodes of a graph."""
    places = _places([meta.node for meta in metas])
    width = max(x for x, _ in places.values()) + BOX_WIDTH + GAP_X
    height = max(y for _, y in places.values()) + BOX_HEIGHT + GAP_Y
    edges = []
    for meta in metas:
        u, v = places[meta.node][0] + BOX_WIDTH // 2, places[meta.node][1]
        for source in meta.node.all_input_nodes:
            x, y = places[source][0] + BOX_WIDTH // 2, places[source][1] + BOX_HEIGHT
            curve = f"M{x},{y} C{x},{(y + v) // 2} {u},{(y + v) // 2} {u},{v}"
            edges.append(f'<path d="{curve}" fill="none" stroke="#888"/>')
    boxes = [_box(meta, *places[meta.node]) for meta in metas]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="sans-serif" font-size="11"'
    return Drawing(f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join([*edges, *boxes])}</svg>')


def _places(nodes: Sequence[fx.Node]) -> dict[fx.Node, tuple[int, int]]:
    """Return the upper left corner of each node: a row below the last of its inputs, beside others of that row."""
    rows: dict[fx.Node, int] = {}
    filled: defaultdict[int, int] = defaultdict(int)
    places = {}
    for node in nodes:
        rows[node] = 1 + max((rows[source] for source in node.all_input_nodes), default=-1)
        column = filled[rows[node]]
        filled[rows[node]] += 1
        places[node] = (GAP_X + column * (BOX_WIDTH + GAP_X), GAP_Y + rows[node] * (BOX_HEIGHT + GAP_Y))
    return places


def _box(meta: NodeMeta, x: int, y: int) -> str:
    quantized = meta.quantized
    colour = OTHER_COLOUR if meta.op is None else FLOAT_COLOUR if quantized is None else QUANTIZED_COLOUR
    formats = {} if quantized is None else quantized.formats
    second = ", ".join(f"{name.removesuffix('_0')} {each}" for name, each in formats.items()) or meta.mase_op
    title = html.escape(f"{meta.node.name}: {meta.mase_op} {second}")
    return (
        f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" '
        f'fill="{colour}" stroke="#444"/><text x="{x + 8}" y="{y + 15}" fill="#111">{_cut(meta.node.name)}</text>'
        f'<text x="{x + 8}" y="{y + 30}" fill="#555">{_cut(second)}</text></g>'
    )


def _cut(text: str, length: int = 36) -> str:
    return html.escape(text if len(text) <= length else f"{text[: length - 1]}…")
