"""Fingerprints of nodes, by which a profile is recognised as that of another model."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from chop.ir import NodeMeta

logger = logging.getLogger(__name__)

NUM_PARTS, PART_SIZE = 64, 128
"""How many parts of a large parameter the checksum covers, and the values of each: training changes all of them."""


class Fingerprint(NamedTuple):
    """What a node computes, without the shapes of its inputs, which depend on the batch."""

    kind: str
    """The op and the shapes of its parameters, such as `linear, weight [4, 6], bias [4]`."""
    weights: str
    """A checksum of the parameters, of large ones in samples; empty if there are none."""


def fingerprints(metas: Iterable[NodeMeta]) -> dict[str, Fingerprint]:
    """Return the fingerprints of nodes by name."""
    return {meta.node.name: _fingerprint(meta) for meta in metas}


def check_same_model(theirs: Mapping[str, Fingerprint], metas: Iterable[NodeMeta]) -> None:
    """Raise ValueError if the nodes of a profile are those of another model; warn if its weights have changed.

    Profiles of earlier versions have no fingerprints.
    """
    ours = fingerprints(meta for meta in metas if meta.node.name in theirs)
    for name, own in ours.items():
        if own.kind != theirs[name].kind:
            raise ValueError(
                f"the profile belongs to another model: its node '{name}' is {theirs[name].kind}, "
                f"here it is {own.kind}"
            )
    changed = [name for name, own in ours.items() if _differ(own.weights, theirs[name].weights)]
    if changed:
        logger.warning("the weights of '%s' are not those with which the profile was made", changed[0])


def _differ(one: str, other: str) -> bool:
    """Whether two checksums are of different weights; those of earlier versions are of other kinds and lengths."""
    return len(one) == len(other) and one != other


def _fingerprint(meta: NodeMeta) -> Fingerprint:
    parameters = {name: meta.value(name) for name, tensor in meta.args.items() if tensor.is_parameter}
    present = {name: value for name, value in parameters.items() if value is not None}
    kind = ", ".join([meta.mase_op, *(f"{name} {list(value.shape)}" for name, value in present.items())])
    checksum = 0  # CRC-32 takes half the time of a cryptographic hash
    for value in present.values():
        sample = _sample(value).cpu().contiguous().view(torch.uint8)
        checksum = zlib.crc32(sample.numpy().data, checksum)
    return Fingerprint(kind, f"crc32 {checksum:08x}" if present else "")


def _sample(value: Tensor) -> Tensor:
    """Return evenly spaced parts of a large parameter; a small one completely."""
    distance = value.numel() // NUM_PARTS
    if distance <= PART_SIZE:
        return value
    return value.flatten().as_strided((NUM_PARTS, PART_SIZE), (distance, 1))
