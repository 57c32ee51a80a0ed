"""Messages about packages that are not installed."""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from chop.display.extras import DISTRIBUTION, EXTRAS, install_command, installed, need

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_every_extra_exists() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert set(EXTRAS.values()) <= set(PROJECT["optional-dependencies"])


def test_launcher_installs_an_extra_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_LAUNCHER", "./ch")
    assert install_command("data") == "./ch setup data"


def test_without_the_launcher_pip_installs_the_packages_of_the_extra() -> None:
    assert install_command("postgresql") == f"{sys.executable} -m pip install 'psycopg[binary]'"


def test_an_extra_that_contains_another_names_the_packages_of_both() -> None:
    assert install_command("gguf").endswith(" -m pip install tokenizers 'transformers>=5' gguf")


def test_packages_are_named_if_the_package_was_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", fail)
    assert install_command("data") == f"{sys.executable} -m pip install h5py pyarrow scikit-learn"


def test_installed_packages_are_found_without_importing_them() -> None:
    assert installed("h5py")
    assert not installed("a_package_that_nobody_has")
    assert need("json", "this").dumps([1]) == "[1]"
