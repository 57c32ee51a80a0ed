"""Event files of TensorBoard."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from chop.files import naming

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
