"""Line buffers: a stream of pixels becomes a stream of windows."""

from __future__ import annotations

from dataclasses import dataclass

from chop.hardware.program.instructions import WindowShape
from chop.hardware.program.signal import counter_bits
from chop.hardware.templates import fill, indented


@dataclass(frozen=True)
class LineBuffer:
    """The rows and columns that a window needs of an image that arrives pixel by pixel, row by row.

    There is one step per pixel, and one per pixel of the padding to the right and below; padding to the left and
    above takes no time.
    """

    window: WindowShape
    """In two dimensions."""
    width: int
    """The bits of an element."""
    fill: tuple[int, ...]
    """By channel: the integer that stands for padding."""

    @property
    def pixel_bits(self) -> int:
        return self.width * len(self.fill)

    @property
    def spans(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element of a window."""
        window = self.window
        height, length = (d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True))
        return height, length

    @property
    def first(self) -> tuple[int, int]:
        """Row and column of the step that completes the first window."""
        height, length = (s - 1 - p for s, p in zip(self.spans, self.window.padding, strict=True))
        return height, length

    @property
    def steps(self) -> tuple[int, int]:
        """Rows and columns of steps: the image, and padding below and to the right as far as windows need it."""
        w = self.window
        rows, columns = (
            max(size, first + (n - 1) * stride + 1)
            for size, first, n, stride in zip(w.size, self.first, w.output_size, w.stride, strict=True)
        )
        return rows, columns

    @property
    def num_steps(self) -> int:
        """Steps per image."""
        return self.steps[0] * self.steps[1]

    @property
    def line_bits(self) -> int:
        """The bits of a word of the memory of earlier rows, which has a word per column."""
        return (self.spans[0] - 1) * self.pixel_bits

    def module(self, name: str) -> str:
        """Return the text of the module."""
        window, pixel = self.window, self.pixel_bits
        axes: dict[str, object] = {}
        for axis, label in enumerate(("ROW", "COL")):
            steps, size, first, stride = self.steps[axis], window.size[axis], self.first[axis], window.stride[axis]
            bits, waiting = counter_bits(steps), counter_bits(max(first + 1, stride))
            axes |= {
                f"{label}_BITS": bits,
                f"{label}_HIGH": bits - 1,
                f"LAST_{label}": steps - 1,
                f"{label}_INSIDE": f"{label.lower()} < {bits}'d{size}" if size < steps else "1'b1",
                f"{label}_WAITING_HIGH": waiting - 1,
                f"{label}_FIRST": f"{waiting}'d{first}",
                f"{label}_NEXT": f"{waiting}'d{stride - 1}",
            }
        mask = (1 << self.width) - 1
        elements = self._elements()
        return fill(
            "line_buffer.sv",
            NAME=name,
            KERNEL_ROWS=window.kernel[0],
            KERNEL_COLUMNS=window.kernel[1],
            CHANNELS=len(self.fill),
            PIXEL_BITS=pixel,
            PIXEL_HIGH=pixel - 1,
            OUT_HIGH=len(elements) * self.width - 1,
            FILL=f"{sum((value & mask) << (self.width * i) for i, value in enumerate(self.fill)):x}",
            ROWS_ABOVE=indented(self._rows_above()),
            TAPS=indented(self._taps()),
            ELEMENTS=", ".join(reversed(elements)),
            ALL_TAPS=", ".join(f"taps{i}" for i in range(window.kernel[0])),
            **axes,
        )

    def _rows_above(self) -> list[str]:
        """Return the memory of earlier rows, and the column of the newest pixels: the newest row is lowest."""
        bits, pixel = self.line_bits, self.pixel_bits
        if not bits:
            return [f"wire [{pixel - 1}:0] column = pixel;"]
        return [
            f"logic [{bits - 1}:0] lines [{self.steps[1]}];",
            f"wire [{bits + pixel - 1}:0] column = {{lines[col], pixel}};",
            f"always_ff @(posedge clk) if (step) lines[col] <= column[{bits - 1}:0];",
        ]

    def _taps(self) -> list[str]:
        """Return the registers of a window, the newest column lowest."""
        window, pixel, length = self.window, self.pixel_bits, self.spans[1]
        lines = []
        for i in range(window.kernel[0]):
            above = (window.kernel[0] - 1 - i) * window.dilation[0]
            value = f"column[{(above + 1) * pixel - 1}:{above * pixel}]"
            if above >= self.steps[0]:
                value = "FILL"
            elif above and window.padding[0]:
                value = f"(row < {counter_bits(self.steps[0])}'d{above} ? FILL : {value})"
            lines.append(f"logic [{length * pixel - 1}:0] taps{i};")
            lines.append("always_ff @(posedge clk) if (step) begin")
            lines.append(f"    taps{i}[{pixel - 1}:0] <= {value};")
            if length > 1:
                upper, lower = f"taps{i}[{length * pixel - 1}:{pixel}]", f"taps{i}[{(length - 1) * pixel - 1}:0]"
                shifted = f"col == '0 ? {{{length - 1}{{FILL}}}} : {lower}" if window.padding[1] else lower
                lines.append(f"    {upper} <= {shifted};")
            lines.append("end")
        return lines

    def _elements(self) -> list[str]:
        """Return where the elements of a window are, in the order channel, row, column."""
        (rows, columns), (_, dilation) = self.window.kernel, self.window.dilation
        elements = []
        for channel in range(len(self.fill)):
            for i in range(rows):
                for j in range(columns):
                    start = (columns - 1 - j) * dilation * self.pixel_bits + channel * self.width
                    elements.append(f"taps{i}[{start + self.width - 1}:{start}]")
        return elements
