"""Resizing and sampling of images, and sums of overlapping windows."""

from __future__ import annotations

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers
from chop.exporting.onnx_graph.lowering.convolution import per_dim

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


@lowers(
    "interpolate",
    *(f"upsample_nearest{dims}d" for dims in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
)
def _interpolate(call: OnnxCall) -> Name:
    builder = call.builder
    mode = call.get("mode", "nearest") if call.op.name == "interpolate" else call.op.name[len("upsample_") : -2]
    if mode not in _MODES or call.get("antialias", False):
        raise call.refusal(f"ONNX has no interpolation '{mode}'" if mode not in _MODES else "it is antialiased")
    free = call.shape()[2:]
    sizes = [call.static(n, "the size of an image") for n in free]
    wanted = [call.static(n, "the size of an image") for n in call.shape_of_result()[2:]]
    scales = builder.constant([1.0, 1.0, *(m / n for n, m in zip(sizes, wanted, strict=True))])
    aligned = "align_corners" if call.get("align_corners", False) else "pytorch_half_pixel"
    kind = _MODES[mode]
    return builder.node(
        "Resize",
        call.tensor("data_in_0"),
        "",
        scales,
        mode=kind,
        coordinate_transformation_mode="asymmetric" if kind == "nearest" else aligned,
        nearest_mode="floor" if kind == "nearest" else None,
        cubic_coeff_a=-0.75 if kind == "cubic" else None,
    )


@lowers("grid_sample")
def _grid_sample(call: OnnxCall) -> Name:
    number = call.get("interpolation_mode")
    mode = call.get("mode", "bilinear") if number is None else ("bilinear", "nearest", "bicubic")[number]
    padding = call.get("padding_mode", "zeros")
    padding = ("zeros", "border", "reflection")[padding] if isinstance(padding, int) else padding
    grid = call.value(call.get("grid"))
    kinds = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    aligned = int(bool(call.get("align_corners", False)))
    x = call.tensor("data_in_0")
    return call.builder.node("GridSample", x, grid, mode=kinds[mode], padding_mode=padding, align_corners=aligned)


@lowers("fold")
def _fold(call: OnnxCall) -> Name:
    builder = call.builder
    size, kernel = per_dim(call.get("output_size"), 2), per_dim(call.get("kernel_size"), 2)
    return builder.node(
        "Col2Im",
        call.tensor("data_in_0"),
        builder.integers(*size),
        builder.integers(*kernel),
        dilations=per_dim(call.get("dilation", 1), 2),
        pads=per_dim(call.get("padding", 0), 2) * 2,
        strides=per_dim(call.get("stride", 1), 2),
    )
