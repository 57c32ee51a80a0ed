"""`ch export`."""

from __future__ import annotations

from pathlib import Path

from chop.config import ExportConfig
from chop.exporting.export import export_run
from chop.runs.run import open_run


def export(config: ExportConfig) -> Path:
    """Write the model of a run as a file for other tools, print the proof, and return the file."""
    exported = export_run(open_run(config.run, config.project_dir, config.accelerator), config)
    print(exported.proof)
    print(f"{exported.path}: {exported.num_bytes:,} bytes, SHA-256 {exported.sha256}")
    return exported.path
