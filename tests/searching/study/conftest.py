"""Commands that start at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_server import CommandServer
from searching import commands


@pytest.fixture
def copied_commands(command_server: CommandServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of a test in copies of one process that has imported the package."""
    program = command_server.write_command(tmp_path / "ch", "-m", "chop")
    monkeypatch.setattr(commands, "program", (str(program),))
