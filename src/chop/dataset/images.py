"""Dividing images into the splits of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset.base import DatasetInfo, Normalize, Rows, Scaling, Splits
from chop.dataset.splits import choose_validation

IMAGE_DIMS = 4  # of a batch: [n, channels, height, width]
WHITE = 255  # the largest byte


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


def given_scaling(
    mean: Sequence[float] | None, std: Sequence[float] | None, images: Tensor, where: str, normalize: Normalize
) -> Scaling | None:
    """Return the scaling of images with this mean and standard deviation per channel; None if neither is given."""
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise ValueError(f"{where}: mean and std must be given together")
    if normalize != "standard":
        raise ValueError(f"{where}: mean and std have no effect with normalize={normalize}")
    if images.dim() != IMAGE_DIMS:
        raise ValueError(
            f"{where}: mean and std are for images, but samples have the shape {list(images.shape[1:])}"
        )
    if not len(mean) == len(std) == images.shape[1]:
        raise ValueError(
            f"{where}: mean and std have {len(mean)} and {len(std)} values, but the images have "
            f"{images.shape[1]} channel(s): give one value for each"
        )
    if min(std) <= 0:
        raise ValueError(f"{where}: std must be positive, got {list(std)}")
    return Scaling(*(torch.tensor(each, dtype=torch.float32).reshape(-1, 1, 1) for each in (mean, std)))


def split_images(
    train: Images,
    test: Images,
    seed: int,
    published: tuple[int, int],
    white: int = WHITE,
    scaling: Scaling | None = None,
    normalize: Normalize = "standard",
) -> Splits:
    """Return three splits; `seed` selects the tenth of `train` that is for validation.

    Pixels are first divided by `white`, and then scaled: by `scaling`, or else to mean 0 and deviation 1 per
    channel, as far as `normalize` says so. `published` are the numbers of images in the original files.
    """
    version = "original" if (len(train.labels), len(test.labels)) == published else "other"
    provenance = f"{version} files, {len(train.labels):,} + {len(test.labels):,} images"
    kept, held_out = (
        Images(train.pixels[rows], train.labels[rows]) for rows in choose_validation(len(train.labels), seed)
    )
    values = "as in the file" if normalize == "none" else f"bytes / {white}"
    if normalize == "standard":
        text = "with the given mean and deviation" if scaling else "mean 0 and deviation 1 in the training split"
        scaling, values = scaling or _channel_scaling(kept.pixels, white), f"{values}, each channel {text}"
    by = 1 if normalize == "none" else white
    return Splits(
        train=_to_rows(kept, scaling, by),
        val=_to_rows(held_out, scaling, by),
        test=_to_rows(test, scaling, by),
        split=f"the test images of the files, a tenth of the others for validation at random with seed {seed}",
        values=values,
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


def _to_rows(images: Images, scaling: Scaling | None, white: int) -> Rows:
    numbers = images.pixels.float().div_(white)  # four times the memory, so the rest is done in place
    if scaling is not None:
        numbers.sub_(scaling.mean).div_(scaling.scale)
    return Rows(numbers, images.labels)
