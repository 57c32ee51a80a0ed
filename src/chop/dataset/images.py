"""Dividing images into the splits of a data set."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset.base import DatasetInfo, Rows, Scaling, Splits
from chop.dataset.splits import choose_validation


class Images(NamedTuple):
    """Pixels as uint8 [n, channels, height, width], and class indices as int64 [n]."""

    pixels: Tensor
    labels: Tensor


def check_images(images: Images, info: DatasetInfo, where: object) -> None:
    """Raise an error if images and labels do not match each other or `info`."""
    if tuple(images.pixels.shape[1:]) != info.feature_shape or len(images.pixels) != len(images.labels):
        raise ValueError(
            f"'{where}' has images of shape {list(images.pixels.shape)} for {len(images.labels)} labels; images of "
            f"'{info.name}' have the shape {list(info.feature_shape)}, and each has a label"
        )
    if len(images.labels) == 0 or images.labels.max() >= info.num_classes:
        highest = f"the label {images.labels.max()}" if len(images.labels) else "no images"
        raise ValueError(f"'{where}' has {highest}; the classes of '{info.name}' are 0 to {info.num_classes - 1}")


def split_images(train: Images, test: Images, seed: int, published: tuple[int, int], white: int = 255) -> Splits:
    """Return three splits, standardised per channel; `seed` selects the tenth of `train` that is for validation.

    Pixels are first divided by `white`. `published` are the numbers of training and test images in the original
    files.
    """
    version = "original" if (len(train.labels), len(test.labels)) == published else "other"
    provenance = f"{version} files, {len(train.labels):,} + {len(test.labels):,} images"
    chosen, held_out_rows = choose_validation(len(train.labels), seed)
    kept = Images(train.pixels[chosen], train.labels[chosen])
    held_out = Images(train.pixels[held_out_rows], train.labels[held_out_rows])
    scaling = _channel_scaling(kept.pixels, white)
    return Splits(
        train=_to_rows(kept, scaling, white),
        val=_to_rows(held_out, scaling, white),
        test=_to_rows(test, scaling, white),
        provenance=provenance,
        version=version,
        scaling=scaling,
    )


def _channel_scaling(pixels: Tensor, white: int) -> Scaling:
    """Return the exact mean and deviation of each channel, computed from a histogram of the bytes."""
    counts = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in pixels.unbind(dim=1)])
    shares = counts.double() / counts.sum(dim=1, keepdim=True)
    levels = torch.arange(256, dtype=torch.float64) / white
    mean = shares @ levels
    deviation = (shares @ levels.square() - mean.square()).clamp(min=0).sqrt()
    scale = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    return Scaling(mean.float().reshape(-1, 1, 1), scale.float().reshape(-1, 1, 1))


def _to_rows(images: Images, scaling: Scaling, white: int) -> Rows:
    numbers = images.pixels.float()  # four times the memory, so the rest is done in place
    numbers.div_(white).sub_(scaling.mean).div_(scaling.scale)
    return Rows(numbers, images.labels)
