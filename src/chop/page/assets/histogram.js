// Histogram of a tensor, with the values that its format can represent.

const HISTOGRAM = { width: 340, height: 104, floor: 80, rug: 9 };

function histogramPlot(tensor, histogram) {
  const { representable } = tensor;
  const [low, high] = viewOf(histogram, representable);
  const x = (value) => ((value - low) / (high - low)) * HISTOGRAM.width;
  const within = (value) => value >= low && value <= high;
  const plot = svg(
    "svg",
    {
      class: "histogram",
      viewBox: `0 0 ${HISTOGRAM.width} ${HISTOGRAM.height}`,
      role: "img",
      "aria-label": inWords(tensor, histogram),
    },
    svg("g", { class: "bars" }, histogramBars(histogram, x)),
  );
  if (representable) {
    const ticks = (representable.values || []).filter(within);
    const tall = ticks.length <= 40;
    plot.append(
      svg("path", {
        class: tall ? "ticks tall" : "ticks",
        d: ticks
          .map((value) => `M${x(value).toFixed(1)},${tall ? 6 : HISTOGRAM.floor + 1}V${HISTOGRAM.floor + HISTOGRAM.rug}`)
          .join(""),
      }),
    );
    for (const limit of [representable.low, representable.high]) {
      if (within(limit))
        plot.append(
          svg(
            "path",
            { class: "limit", d: `M${x(limit)},2V${HISTOGRAM.floor + HISTOGRAM.rug}` },
            svg("title", {}, `limit ${shown(limit)}`),
          ),
        );
    }
  }
  plot.append(svg("path", { class: "axis", d: `M0,${HISTOGRAM.floor}H${HISTOGRAM.width}` }));
  if (x(0) > 40 && x(0) < HISTOGRAM.width - 40) plot.append(axisText(x(0), "0", "middle"));
  plot.append(axisText(0, shown(low), "start"), axisText(HISTOGRAM.width, shown(high), "end"));
  return plot;
}

// One bar per bin that is not empty; heights are logarithmic.
function histogramBars(histogram, x) {
  const top = Math.log1p(Math.max(...histogram.counts, 1));
  const step = (histogram.to - histogram.from) / histogram.counts.length;
  return histogram.counts.map((count, i) => {
    if (!count) return null;
    const height = Math.max(1, (Math.log1p(count) / top) * (HISTOGRAM.floor - 8));
    const left = x(histogram.from + i * step);
    return svg(
      "rect",
      {
        x: left,
        y: HISTOGRAM.floor - height,
        width: Math.max(0.8, x(histogram.from + (i + 1) * step) - left - 0.4),
        height,
      },
      svg(
        "title",
        {},
        `${exact(count)} values from ${shown(histogram.from + i * step)} to ${shown(histogram.from + (i + 1) * step)}`,
      ),
    );
  });
}

function axisText(x, text, anchor) {
  return svg("text", { x, y: HISTOGRAM.height - 3, "text-anchor": anchor }, text);
}

// The range to draw: the data, and the limits of the format if they are near.
function viewOf(histogram, representable) {
  let { from: low, to: high } = histogram;
  const room = (high - low || Math.abs(high) || 1) * 1.5;
  if (representable && representable.low < low && low - representable.low < room) low = representable.low;
  if (representable && representable.high > high && representable.high - high < room) high = representable.high;
  return [low, high];
}

function numDrawn(histogram) {
  return histogram.counts.reduce((sum, count) => sum + count, 0);
}

function inWords(tensor, histogram) {
  const parts = [
    `Histogram of ${tensor.name}: ${exact(numDrawn(histogram))} values from ${shown(histogram.low)} to ${shown(histogram.high)}`,
  ];
  if (tensor.representable)
    parts.push(`${tensor.format} covers ${shown(tensor.representable.low)} to ${shown(tensor.representable.high)}`);
  return parts.join("; ");
}

function representableInWords(representable) {
  if (!representable) return null;
  const parts = [
    `${representable.num_values === null ? "" : `${exact(representable.num_values)} values `}from ${shown(representable.low)} to ${shown(representable.high)}`,
  ];
  if (representable.step !== null) parts.push(`smallest step ${shown(representable.step)}`);
  if (representable.stride > 1) parts.push(`one in ${representable.stride} values is drawn`);
  if (representable.num_scales > 1) parts.push(`shown for the largest of ${exact(representable.num_scales)} scales`);
  return parts.join(", ");
}
