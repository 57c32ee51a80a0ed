// The values of a tensor as bars, and over them the numbers that its format can represent.

const PICTURE = { width: 340, height: 104, floor: 80, rug: 9 };

function histogramPicture(tensor, histogram) {
  const grid = tensor.grid;
  const [low, high] = viewOf(histogram, grid);
  const x = (value) => ((value - low) / (high - low)) * PICTURE.width;
  const within = (value) => value >= low && value <= high;
  const picture = svg(
    "svg",
    {
      class: "histogram",
      viewBox: `0 0 ${PICTURE.width} ${PICTURE.height}`,
      role: "img",
      "aria-label": inWords(tensor, histogram),
    },
    svg("g", { class: "bars" }, histogramBars(histogram, x)),
  );
  if (grid) {
    const ticks = (grid.values || []).filter(within);
    const tall = ticks.length <= 40;
    picture.append(
      svg("path", {
        class: tall ? "ticks tall" : "ticks",
        d: ticks
          .map((value) => `M${x(value).toFixed(1)},${tall ? 6 : PICTURE.floor + 1}V${PICTURE.floor + PICTURE.rug}`)
          .join(""),
      }),
    );
    for (const limit of [grid.low, grid.high]) {
      if (within(limit))
        picture.append(
          svg(
            "path",
            { class: "limit", d: `M${x(limit)},2V${PICTURE.floor + PICTURE.rug}` },
            svg("title", {}, `limit ${shown(limit)}`),
          ),
        );
    }
  }
  picture.append(svg("path", { class: "axis", d: `M0,${PICTURE.floor}H${PICTURE.width}` }));
  if (x(0) > 40 && x(0) < PICTURE.width - 40) picture.append(axisText(x(0), "0", "middle"));
  picture.append(axisText(0, shown(low), "start"), axisText(PICTURE.width, shown(high), "end"));
  return picture;
}

// A bar for each bin that is not empty; heights are logarithmic.
function histogramBars(histogram, x) {
  const top = Math.log1p(Math.max(...histogram.counts, 1));
  const step = (histogram.to - histogram.from) / histogram.counts.length;
  return histogram.counts.map((count, i) => {
    if (!count) return null;
    const height = Math.max(1, (Math.log1p(count) / top) * (PICTURE.floor - 8));
    const left = x(histogram.from + i * step);
    return svg(
      "rect",
      {
        x: left,
        y: PICTURE.floor - height,
        width: Math.max(0.8, x(histogram.from + (i + 1) * step) - left - 0.4),
        height,
      },
      svg(
        "title",
        {},
        `${plainNumber(count)} values from ${shown(histogram.from + i * step)} to ${shown(histogram.from + (i + 1) * step)}`,
      ),
    );
  });
}

function axisText(x, text, anchor) {
  return svg("text", { x, y: PICTURE.height - 3, "text-anchor": anchor }, text);
}

// The data, and the limits of the format where those are not far off.
function viewOf(histogram, grid) {
  let { from: low, to: high } = histogram;
  const room = (high - low || Math.abs(high) || 1) * 1.5;
  if (grid && grid.low < low && low - grid.low < room) low = grid.low;
  if (grid && grid.high > high && grid.high - high < room) high = grid.high;
  return [low, high];
}

function numDrawn(histogram) {
  return histogram.counts.reduce((sum, count) => sum + count, 0);
}

function inWords(tensor, histogram) {
  const parts = [
    `Histogram of ${tensor.name}: ${plainNumber(numDrawn(histogram))} values from ${shown(histogram.low)} to ${shown(histogram.high)}`,
  ];
  if (tensor.grid)
    parts.push(`${tensor.format} reaches from ${shown(tensor.grid.low)} to ${shown(tensor.grid.high)}`);
  return parts.join("; ");
}

function gridInWords(grid) {
  if (!grid) return null;
  const parts = [
    `${grid.num_values === null ? "" : `${plainNumber(grid.num_values)} numbers `}from ${shown(grid.low)} to ${shown(grid.high)}`,
  ];
  if (grid.step !== null) parts.push(`finest step ${shown(grid.step)}`);
  if (grid.stride > 1) parts.push(`every ${grid.stride}th is drawn`);
  if (grid.num_scales > 1) parts.push(`drawn at the largest of ${plainNumber(grid.num_scales)} scales`);
  return parts.join(", ");
}
