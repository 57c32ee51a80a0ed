"""`ch export`."""

from __future__ import annotations

from pathlib import Path

from chop.config import ExportConfig
from chop.exporting import ExportOptions, export_graph
from chop.runs.run import open_run


def export(config: ExportConfig) -> Path:
    """Write the model of a run as a file for other tools, print the proof, and return the file."""
    run = open_run(config.run, config.project_dir)
    graph = run.experiment.annotated_graph(num_rows=2)
    path = run.folder.exported(config.format) if config.output is None else config.output
    exported = export_graph(
        graph, path, config.format, run.test_batches(config.samples), ExportOptions(config.opset)
    )
    run.folder.add_export(exported.as_dict())
    print(exported.proof)
    print(f"{exported.path}: {exported.num_bytes:,} bytes, SHA-256 {exported.sha256}")
    return exported.path
