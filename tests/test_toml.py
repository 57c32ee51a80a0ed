"""Options as TOML text."""

from __future__ import annotations

import tomllib
from pathlib import Path

from chop.config import TransformConfig
from chop.toml import to_table, write_toml


def test_configuration_reads_back_from_toml() -> None:
    config = TransformConfig(model="a", dataset="b", plugins=(Path("x.py"),), passes={"quantize": {"by": "type"}})
    table = to_table(config)
    assert tomllib.loads(write_toml(table)) == table
    assert table["plugins"] == ["x.py"]
    assert table["project_dir"] == "mase_output"
    assert table["transform"] == {"style": "graph", "evaluate": True, "cache_weights": True}


def test_none_is_left_out() -> None:
    assert "load_name" not in to_table(TransformConfig(model="a", dataset="b"))


def test_each_value_is_one_line_with_its_comment_and_tables_come_last() -> None:
    text = write_toml({"t": {"x": 1}, "a": [1, 2], "longer": 'a "b"\n'}, {"a": "file", "t": "default"})
    assert text == 'a = [1, 2]            # file\nlonger = "a \\"b\\"\\n"\n\n# default\n[t]\nx = 1\n'
