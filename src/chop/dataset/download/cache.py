"""Where downloaded files are kept, and whether any may be fetched."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder for the files of the data set `name`: in CHOP_CACHE, else in the platform's cache directory."""
    chosen = os.environ.get("CHOP_CACHE")
    root = Path(chosen).expanduser() if chosen else platform_cache(sys.platform, os.environ)
    return root / name


def platform_cache(system: str, environment: Mapping[str, str]) -> Path:
    """The folder for our files that the operating system `system` has in mind for such."""
    if system == "darwin":
        return Path.home() / "Library" / "Caches" / "chop"
    if system == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "chop" / "Cache"
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "chop"  # relative ones: to be ignored


def is_offline() -> bool:
    """Whether CHOP_OFFLINE forbids the network; 0 and nothing do not."""
    return os.environ.get("CHOP_OFFLINE", "") not in ("", "0")
