"""Writing the model of a run as a file of another tool."""

from __future__ import annotations

from chop.config import ExportConfig
from chop.exporting.export import Exported, export_graph, file_name
from chop.folder_lock import only_writer
from chop.runs.folder import output_file
from chop.runs.run import Run


def export_run(run: Run, config: ExportConfig) -> Exported:
    """Write the model of a run, and add the file to the summary of the run."""
    path = run.folder.exported(file_name(config.format))
    if config.output is not None:
        path = output_file(config.output, path.name)
    graph = run.experiment.annotated_graph(num_rows=2)
    with only_writer(run.folder.path):
        exported = export_graph(graph, path, config.format, run.test_batches(config.samples), config)
        run.folder.add_export(exported.as_dict())
    return exported
