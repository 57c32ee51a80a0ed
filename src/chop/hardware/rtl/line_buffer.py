"""Line buffers: a stream of pixels becomes a stream of windows."""

from __future__ import annotations

from dataclasses import dataclass

from chop.hardware.program.instructions import WindowShape
from chop.hardware.rtl.module import HEADER


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
        return HEADER + _module(name, self)


def _module(name: str, buffer: LineBuffer) -> str:
    window, pixel = buffer.window, buffer.pixel_bits
    rows, columns = buffer.steps
    taps = len(buffer.fill) * window.kernel[0] * window.kernel[1]
    body = [
        *_counter("row", rows, window.size[0]),
        *_counter("col", columns, window.size[1]),
        *_waiting("row", buffer.first[0], window.stride[0]),
        *_waiting("col", buffer.first[1], window.stride[1]),
        "wire free = ~out_valid | out_ready;",
        "wire in_image = row_inside & col_inside;",
        "wire step = free & (in_valid | ~in_image);",
        "assign in_ready = free & in_image;",
        f"localparam logic [{pixel - 1}:0] FILL = {pixel}'h{_fill(buffer):x};",
        f"wire [{pixel - 1}:0] pixel = in_image ? in_data : FILL;",
        *_rows_above(buffer),
        *_taps(buffer),
        "always_ff @(posedge clk) begin",
        "    if (rst) begin",
        "        out_valid <= 1'b0;",
        *(f"        {line}" for line in _reset(buffer)),
        "    end else if (step) begin",
        "        out_valid <= row_waiting == '0 & col_waiting == '0;",
        "        col <= col_last ? '0 : col + 1'b1;",
        f"        col_waiting <= {_next_waiting('col', buffer.first[1], window.stride[1])};",
        "        if (col_last) begin",
        "            row <= row_last ? '0 : row + 1'b1;",
        f"            row_waiting <= {_next_waiting('row', buffer.first[0], window.stride[0])};",
        "        end",
        "    end else if (out_ready) out_valid <= 1'b0;",
        "end",
    ]
    size = f"{window.kernel[0]} x {window.kernel[1]}"
    lines = [
        f"// Windows of {size} pixels of {len(buffer.fill)} channels, in the order channel, row, column.",
        f"module {name} (",
        "    input  logic clk,",
        "    input  logic rst,",
        "    input  logic in_valid,",
        "    output logic in_ready,",
        f"    input  logic [{pixel - 1}:0] in_data,",
        "    output logic out_valid,",
        "    input  logic out_ready,",
        f"    output logic [{taps * buffer.width - 1}:0] out_data",
        ");",
        *(f"    {line}" for line in body),
        "endmodule",
        "",
    ]
    return "\n".join(lines)


def _bits(count: int) -> int:
    return max(1, (count - 1).bit_length())


def _counter(name: str, steps: int, size: int) -> list[str]:
    bits = _bits(steps)
    inside = f"{name} < {bits}'d{size}" if size < steps else "1'b1"
    return [
        f"logic [{bits - 1}:0] {name};",
        f"wire {name}_last = {name} == {bits}'d{steps - 1};",
        f"wire {name}_inside = {inside};",
    ]


def _waiting(name: str, first: int, stride: int) -> list[str]:
    return [f"logic [{_bits(max(first + 1, stride)) - 1}:0] {name}_waiting;  // until the next window"]


def _next_waiting(name: str, first: int, stride: int) -> str:
    bits = _bits(max(first + 1, stride))
    following = f"{name}_waiting == '0 ? {bits}'d{stride - 1} : {name}_waiting - 1'b1"
    return f"{name}_last ? {bits}'d{first} : {following}"


def _reset(buffer: LineBuffer) -> list[str]:
    lines = ["row <= '0;", "col <= '0;"]
    for name, first, stride in zip(("row", "col"), buffer.first, buffer.window.stride, strict=True):
        lines.append(f"{name}_waiting <= {_bits(max(first + 1, stride))}'d{first};")
    return lines


def _fill(buffer: LineBuffer) -> int:
    mask = (1 << buffer.width) - 1
    return sum((value & mask) << (buffer.width * i) for i, value in enumerate(buffer.fill))


def _rows_above(buffer: LineBuffer) -> list[str]:
    """Return the memory of earlier rows, and the column of the newest pixels: the newest row is lowest."""
    bits, pixel = buffer.line_bits, buffer.pixel_bits
    if not bits:
        return [f"wire [{pixel - 1}:0] column = pixel;"]
    return [
        f"logic [{bits - 1}:0] lines [{buffer.steps[1]}];",
        f"wire [{bits + pixel - 1}:0] column = {{lines[col], pixel}};",
        f"always_ff @(posedge clk) if (step) lines[col] <= column[{bits - 1}:0];",
    ]


def _taps(buffer: LineBuffer) -> list[str]:
    """Return the registers of a window, the newest column lowest, and the elements of `out_data`."""
    window, pixel = buffer.window, buffer.pixel_bits
    (kernel_h, kernel_w), (dilation_h, dilation_w) = window.kernel, window.dilation
    length = buffer.spans[1]
    rows = _bits(buffer.steps[0])
    lines = []
    for i in range(kernel_h):
        above = (kernel_h - 1 - i) * dilation_h
        value = f"column[{(above + 1) * pixel - 1}:{above * pixel}]"
        if above >= buffer.steps[0]:
            value = "FILL"
        elif above and window.padding[0]:
            value = f"(row < {rows}'d{above} ? FILL : {value})"
        lines.append(f"logic [{length * pixel - 1}:0] taps{i};")
        lines.append("always_ff @(posedge clk) if (step) begin")
        lines.append(f"    taps{i}[{pixel - 1}:0] <= {value};")
        if length > 1:
            upper, lower = f"taps{i}[{length * pixel - 1}:{pixel}]", f"taps{i}[{(length - 1) * pixel - 1}:0]"
            filled = f"{{{length - 1}{{FILL}}}}"
            shifted = f"col == '0 ? {filled} : {lower}" if window.padding[1] else lower
            lines.append(f"    {upper} <= {shifted};")
        lines.append("end")
    parts = [
        f"taps{i}[{start + buffer.width - 1}:{start}]"
        for c in range(len(buffer.fill))
        for i in range(kernel_h)
        for j in range(kernel_w)
        for start in [(kernel_w - 1 - j) * dilation_w * pixel + c * buffer.width]
    ]
    unused = ", ".join(["1'b0", "column", *(f"taps{i}" for i in range(kernel_h))])
    return [*lines, f"assign out_data = {{{', '.join(reversed(parts))}}};", f"wire unused = &{{{unused}}};"]
