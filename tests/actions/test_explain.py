"""`ch explain`: one node of a run, or the list of all nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop import cli
from chop.actions.train import train
from chop.config import TrainConfig
from chop.passes.graph import explain_node
from chop.runs.run import open_run

pytestmark = pytest.mark.slow


@pytest.fixture
def trained(train_config: TrainConfig) -> Path:
    return train(train_config)


def test_node_is_explained_on_test_rows(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = ["explain", trained.name, "seq_blocks_0", "--project-dir", str(trained.parent), "--samples", "70"]
    assert cli.main([*words, "--sqnr", "20"]) == 0
    out = capsys.readouterr().out
    run = open_run(trained)
    assert out == f"{explain_node(run.graph, 'seq_blocks_0', run.test_batches(70), sqnr_db=20.0)}\n"
    assert out.startswith("seq_blocks_0: linear (Linear)\n")
    assert "20 dB" in out
    assert "Activations were measured on 70 rows." in out


def test_nodes_are_listed_if_none_is_given(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["explain", str(trained)]) == 0
    printed = capsys.readouterr()
    names = [line.split()[0] for line in printed.out.splitlines()[2:]]
    assert printed.err.endswith(f"explain {trained} seq_blocks_0\n")
    assert names == [node.name for node in open_run(trained).graph.fx_graph.nodes]


def test_unknown_node_is_reported_in_one_line(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["explain", str(trained), "seq_block_0"]) == 2
    assert "there is no node 'seq_block_0' in the graph; did you mean 'seq_blocks_0'?" in capsys.readouterr().err


def test_a_node_alone_is_one_of_the_newest_run(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    project = ["--project-dir", str(trained.parent)]
    assert cli.main(["explain", "seq_blocks_0", *project]) == 0
    assert capsys.readouterr().out.startswith("seq_blocks_0: linear (Linear)\n")
    assert cli.main(["explain", "seq_block_0", *project]) == 2
    message = (
        "there is neither a run nor a node of the newest run called 'seq_block_0'; did you mean 'seq_blocks_0'?"
    )
    assert message in capsys.readouterr().err
