"""The logger of the package, and its level."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from chop.display.progress import StatusLine
from chop.tools import get_logger, set_logging_verbosity


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the handlers of the package's logger, and restore its level at the end."""
    logger = logging.getLogger("chop")
    level = logger.level
    monkeypatch.setattr(logger, "handlers", [])
    yield
    logger.setLevel(level)


def test_messages_are_printed_once_after_several_calls(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        set_logging_verbosity("info")
    get_logger("chop.dataset").info("loaded %d rows", 7)
    assert capsys.readouterr().err == "INFO: loaded 7 rows\n"


def test_the_level_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    set_logging_verbosity("debug")
    get_logger().debug("small")
    set_logging_verbosity("ERROR")
    get_logger().warning("medium")
    get_logger().error("large")
    assert capsys.readouterr().err == "DEBUG: small\nERROR: large\n"


def test_an_unknown_level_lists_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match="'warn'; allowed: debug, info, warning, error, critical"):
        set_logging_verbosity("warn")


def test_loggers_are_children_of_the_logger_of_the_package() -> None:
    assert get_logger().name == "chop"
    assert get_logger("chop.ir").name == "chop.ir"
    assert get_logger("mine").name == "chop.mine"


def test_a_warning_can_be_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    set_logging_verbosity("info", repeat_warnings=False)
    for _ in range(2):
        get_logger().warning("slow %s", "data")
        get_logger().info("done")
    assert capsys.readouterr().err == "WARNING: slow data\nINFO: done\nINFO: done\n"
    set_logging_verbosity("info", repeat_warnings=False)
    get_logger().warning("slow %s", "data")
    assert capsys.readouterr().err == "WARNING: slow data\n"


def test_a_message_on_a_terminal_replaces_the_status_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_logging_verbosity("info")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    StatusLine().draw("profiling: 128 of 256 rows")
    get_logger().info("compared")
    assert capsys.readouterr().err == "\r\x1b[Kprofiling: 128 of 256 rows\r\x1b[KINFO: compared\n"
