"""The cache folder, for downloaded files and compiled code, and whether downloads are allowed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder `name` of the cache: in CHOP_CACHE, or else in the platform's cache directory."""
    chosen = os.environ.get("CHOP_CACHE")
    root = Path(chosen).expanduser() if chosen else platform_cache(sys.platform, os.environ)
    return root / name


def platform_cache(system: str, environment: Mapping[str, str]) -> Path:
    """Return the cache directory of chop on an operating system (`sys.platform`)."""
    if system == "darwin":
        return Path.home() / "Library" / "Caches" / "chop"
    if system == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "chop" / "Cache"
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    return (
        named if named.is_absolute() else Path.home() / ".cache"
    ) / "chop"  # the standard says to ignore a relative path


def is_offline() -> bool:
    """Whether CHOP_OFFLINE disables downloads; an empty value and 0 do not."""
    return os.environ.get("CHOP_OFFLINE", "") not in ("", "0")
