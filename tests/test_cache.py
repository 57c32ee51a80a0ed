"""The cache folder of each platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop import cache


def test_the_cache_folder_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    assert cache.cache_folder("jsc") == tmp_path / "jsc"
    monkeypatch.setenv("CHOP_CACHE", "~/somewhere")
    assert cache.cache_folder("jsc") == Path.home() / "somewhere" / "jsc"


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        ("linux", {}, "~/.cache/chop"),
        ("linux", {"XDG_CACHE_HOME": "/scratch/cache"}, "/scratch/cache/chop"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/chop"),  # the specification says to ignore it
        ("darwin", {"XDG_CACHE_HOME": "/scratch/cache"}, "~/Library/Caches/chop"),
        ("win32", {"LOCALAPPDATA": "/users/me/local"}, "/users/me/local/chop/Cache"),
        ("win32", {}, "~/AppData/Local/chop/Cache"),
    ],
)
def test_every_platform_has_its_cache_folder(system: str, environment: dict[str, str], expected: str) -> None:
    assert cache.platform_cache(system, environment) == Path(expected).expanduser()


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_values_of_the_offline_variable(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("CHOP_OFFLINE", value)
    assert cache.is_offline() is expected
