"""Event files for TensorBoard, written without its package, which takes 50 MB.

A file is a sequence of records: length, its checksum, content, its checksum. The content is an `Event` of
TensorFlow's `event.proto`: field 1 is the time (double), 2 the step (int64), 3 the version of the file (string) and
5 a `Summary`. Field 1 of the summary is a `Value` with the tag (field 1, string) and the number (field 2, float).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from chop.files import naming

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), reversed


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


class EventFile:
    """A new TensorBoard event file in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._file = open(self._path, "ab")  # noqa: SIM115  # closed by close()
        with naming(self._path):
            self._file.write(record(_double(1, time.time()) + _bytes(3, b"brain.Event:2")))

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Add one event with these values."""
        summary = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in values.items())
        event = _double(1, time.time()) + b"\x10" + _varint(step) + _bytes(5, summary)
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
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
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


def _double(field: int, number: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", number)


def _float(field: int, number: float) -> bytes:
    return bytes([field << 3 | 5]) + struct.pack("<f", number)
