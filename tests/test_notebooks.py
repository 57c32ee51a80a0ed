"""Every notebook runs from its first to its last cell, and is kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_server import CommandServer

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def write_kernel(folder: Path, command_server: CommandServer) -> None:
    """Describe the kernel `copy`: Python in a copy of a process that has imported what notebooks use."""
    kernel = folder / "kernels" / "copy"
    kernel.mkdir(parents=True)
    command = command_server.write_command(kernel / "python", "-m", "ipykernel_launcher")
    description = {"argv": [str(command), "-f", "{connection_file}"], "display_name": "copy", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(description))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_server: CommandServer
) -> None:
    for name, value in (("CHOP_OFFLINE", "1"), ("OMP_NUM_THREADS", "1"), ("MPLBACKEND", "agg")):
        monkeypatch.setenv(name, value)
    write_kernel(tmp_path / "jupyter", command_server)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    import nbclient  # here, because it takes seconds
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="copy", resources=place)
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown), "no object has an HTML form"
    assert not any(output.output_type == "error" for output in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
