"""Your own networks: copy this file, change it, and train one of them.

./ch train test-hhy jsc --plugin configs/examples/my_networks.py --max-epochs 5
"""

from itertools import pairwise

from torch import Tensor, nn

from chop.models import DataInfo, register_model


def block(inputs: int, outputs: int) -> list[nn.Module]:
    """Return a linear layer, batch normalisation and a ReLU."""
    return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]


class Tagger(nn.Module):
    """Batch normalisation, then blocks of the given widths, with one output per class."""

    def __init__(self, info: DataInfo, hidden: tuple[int, ...]) -> None:
        super().__init__()
        widths = (info.num_features, *hidden, info.num_classes)
        layers: list[nn.Module] = [nn.BatchNorm1d(info.num_features), nn.ReLU()]
        for inputs, outputs in pairwise(widths):
            layers += block(inputs, outputs)
        self.seq_blocks = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.seq_blocks(x)
        return scores


@register_model("test-hhy")
def small(info: DataInfo) -> nn.Module:
    """A jet tagger with hidden layers of 32, 16 and 8: 1,407 parameters."""
    return Tagger(info, hidden=(32, 16, 8))


@register_model("test")
def large(info: DataInfo) -> nn.Module:
    """A jet tagger with hidden layers of 64, 128, 8 and 8: 11,015 parameters."""
    return Tagger(info, hidden=(64, 128, 8, 8))
