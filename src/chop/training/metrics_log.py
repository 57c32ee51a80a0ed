"""The log of a training run: `metrics.jsonl`, and TensorBoard or Weights & Biases."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from chop.config import TrainConfig
from chop.display.extras import need
from chop.files import naming, read_text, write_text
from chop.runs import RunFolder

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), reversed


class EventFile:
    """A new event file for TensorBoard in `folder`, written without its package, which takes 50 MB.

    A file is a sequence of records: length, its checksum, content, its checksum. The content is an `Event` of
    TensorFlow's `event.proto`: field 1 is the time (double), 2 the step (int64), 3 the version of the file (string)
    and 5 a `Summary`. Field 1 of the summary is a `Value` with the tag (field 1, string) and the number (field 2,
    float).
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._file = open(self._path, "ab")  # noqa: SIM115  # closed by close()
        with naming(self._path):
            self._file.write(record(_now() + _bytes(3, b"brain.Event:2")))

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Add one event with these values."""
        tagged = (_bytes(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value) for tag, value in values.items())
        summary = b"".join(_bytes(1, value) for value in tagged)
        event = _now() + b"\x10" + _varint(step) + _bytes(5, summary)
        with naming(self._path):
            self._file.write(record(event))

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()

    def close(self) -> None:
        with naming(self._path):
            self._file.close()


def record(content: bytes) -> bytes:
    """Return a record of the file."""
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def crc32c(content: bytes) -> int:
    """Return the CRC-32C checksum."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _checksum(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bytes(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _now() -> bytes:
    """Return field 1 of an event, its time."""
    return struct.pack("<Bd", 1 << 3 | 1, time.time())


class Reporter(Protocol):
    """A destination of the metrics besides `metrics.jsonl`."""

    def add(self, values: Mapping[str, float], step: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class MetricsLog:
    """A file with one JSON object per line; the same numbers go to a reporter."""

    def __init__(self, path: Path, reporter: Reporter | None) -> None:
        self._path = path
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # closed by close()
        self._reporter = reporter

    def add(self, step: int, epoch: int, **values: float) -> None:
        with naming(self._path):
            self._file.write(json.dumps({"step": step, "epoch": epoch, **values}) + "\n")
        if self._reporter is not None:
            self._reporter.add(values, step)

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()
        if self._reporter is not None:
            self._reporter.flush()

    def close(self) -> None:
        with naming(self._path):
            self._file.close()
        if self._reporter is not None:
            self._reporter.close()


def open_log(config: TrainConfig, folder: RunFolder, first_step: int) -> MetricsLog:
    """Open the log of a run; the lines after `first_step` are removed, because a resumed run writes them again."""
    path = folder.metrics
    if path.exists():
        lines = read_text(path).splitlines()
        write_text(path, "".join(f"{line}\n" for line in lines if _step(line) <= first_step))
    reporter: Reporter | None = None
    if config.report_to == "tensorboard":
        reporter = EventFile(folder.tensorboard)
    elif config.report_to == "wandb":
        reporter = _Wandb(config, folder)
    return MetricsLog(path, reporter)


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):  # such as a line cut off when the process was killed
        return float("inf")


def check_reporter(config: TrainConfig) -> None:
    """Raise an error if the reporter that `config` names is not installed."""
    if config.report_to == "wandb":
        _wandb()


class _Wandb:
    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        self._run = _wandb().init(project=config.project, name=folder.name, dir=str(folder.path))

    def add(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Do nothing: wandb sends in the background."""

    def close(self) -> None:
        self._run.finish()


def _wandb() -> Any:
    return need("wandb", "report_to 'wandb'")
