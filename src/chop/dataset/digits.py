"""The handwritten digits that are part of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from chop.dataset.base import DatasetInfo, Normalized, Splits, register_dataset
from chop.dataset.images import Images, check_images, split_images
from chop.dataset.splits import TEST_SHARE
from chop.display.extras import need

WHITE = 16  # the value of the brightest pixel


@register_dataset("digits")
@dataclass(frozen=True)
class Digits(Normalized):
    """1,797 images of handwritten digits, 8 x 8 pixels (Alpaydin and Kaynak, 1998), part of scikit-learn."""

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "digits", 8 * 8, 10, feature_shape=(1, 8, 8), class_names=tuple("0123456789")
    )

    def load(self) -> Splits:
        """Return the images in three splits."""
        content = need("sklearn.datasets", "data set 'digits'").load_digits()
        pixels = torch.from_numpy(content.images.astype("uint8")).unsqueeze(1)
        labels = torch.from_numpy(content.target.astype("int64"))
        check_images(Images(pixels, labels), self.info, "scikit-learn's digits")
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(self.seed))
        test, rest = order.tensor_split([round(TEST_SHARE * len(labels))])
        train_images, test_images = (Images(pixels[part], labels[part]) for part in (rest, test))
        published = len(rest), len(test)
        splits = split_images(train_images, test_images, self.seed, published, WHITE, None, self.normalize)
        provenance = f"bundled with scikit-learn, {len(labels):,} images"
        split = f"at random with seed {self.seed}"
        return replace(splits, provenance=provenance, version="bundled", split=split)
