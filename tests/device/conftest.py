"""The tests of this folder run in processes of their own (`make test`), because they register a device."""

from __future__ import annotations

from device import other

other.install()
