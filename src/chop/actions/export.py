"""`ch export`."""

from __future__ import annotations

from pathlib import Path

from chop.config import ExportConfig
from chop.exporting import Exported, ExportOptions, export_graph
from chop.runs.output_file import output_file
from chop.runs.run import Run, open_run


def export(config: ExportConfig) -> Path:
    """Write the model of a run as a file for other tools, print the proof, and return the file."""
    exported = export_run(open_run(config.run, config.project_dir), config)
    print(exported.proof)
    print(f"{exported.path}: {exported.num_bytes:,} bytes, SHA-256 {exported.sha256}")
    return exported.path


def export_run(run: Run, config: ExportConfig) -> Exported:
    """Write the model of a run, and add the file to the summary of the run."""
    path = run.folder.exported(config.format)
    if config.output is not None:
        path = output_file(config.output, path.name)
    graph = run.experiment.annotated_graph(num_rows=2)
    batches = run.test_batches(config.samples)
    exported = export_graph(graph, path, config.format, batches, ExportOptions(config.opset))
    run.folder.add_export(exported.as_dict())
    return exported
