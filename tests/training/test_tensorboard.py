"""TensorBoard event files, compared with bytes that TensorBoard wrote."""

from __future__ import annotations

import struct
from pathlib import Path

from chop.training.tensorboard import EventFile, crc32c, record


def test_the_checksum_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 calls it CRC32C
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_a_record_is_as_tensorboard_writes_it() -> None:
    # tensorboard 2.21: RecordWriter(file).write(b"abc")
    assert record(b"abc").hex() == "0300000000000000b099490e6162636e57f121"


def test_a_file_holds_the_numbers_that_were_added(tmp_path: Path) -> None:
    events = EventFile(tmp_path / "tensorboard")
    events.add({"train_loss": 0.5, "lr": 0.25}, step=300)
    events.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    first, second = contents(file.read_bytes())
    assert first[9:] == b"\x1a\x0dbrain.Event:2"
    # step 300; a summary of two values, each a tag and a float
    tags = (
        b"\x0a\x11\x0a\x0atrain_loss\x15"
        + struct.pack("<f", 0.5)
        + b"\x0a\x09\x0a\x02lr\x15"
        + struct.pack("<f", 0.25)
    )
    assert second[9:] == b"\x10\xac\x02\x2a" + bytes([len(tags)]) + tags


def contents(data: bytes) -> list[bytes]:
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert record(data[12 : 12 + length]) == data[: 16 + length]
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found
