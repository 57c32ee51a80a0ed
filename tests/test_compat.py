"""Old import paths of other modules."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from docs_tables.__main__ import fill

import chop.actions
import chop.passes.graph.utils
from chop.compat import MOVED
from chop.compat.functions import get_mase_op
from test_docs import ROOT


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_has_the_public_names_of_the_new_one(old: str) -> None:
    names, new = vars(import_module(old)), import_module(MOVED[old])
    assert all(names[name] is value for name, value in vars(new).items() if not name.startswith("_"))


def test_old_paths_can_be_imported_as_modules_and_by_name() -> None:
    from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules
    from chop.tools.checkpoint_load import load_model

    assert chop.passes.graph.utils.get_mase_op is get_mase_op
    assert calculate_modules.__module__ == "chop.compat.functions"
    assert callable(load_model)


def test_a_folder_that_an_update_leaves_behind_does_not_hide_an_old_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "search" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(chop.actions, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "chop.actions.search", raising=False)
    assert callable(import_module("chop.actions.search").search)


def test_other_modules_are_still_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'chop\.tools\.missing'"):
        import_module("chop.tools.missing")


def test_the_table_of_the_documentation_has_all_of_them() -> None:
    page = (ROOT / "docs" / "coming-from-mase.md").read_text()
    assert fill(page) == page
    assert all(f"| `{old}` | `{new}` |" in page for old, new in MOVED.items())
