"""Writing a graph as a file of another tool: it is kept only if the file computes what the graph computes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chop.config import ExportConfig, ExportOptions
from chop.exporting.proof import Batch, Engine, Proof, compare
from chop.files import atomic_path
from chop.folder_lock import only_writer
from chop.ir import MaseGraph
from chop.ir.graph.device import CPU, moved, on_cpu
from chop.registry import Registry
from chop.runs.folder import output_file
from chop.runs.run import Run
from chop.statistics.batches import limited_batches


class CannotExportError(ValueError):
    """A node, or a number format of a node, that the target of an export does not have."""

    def __init__(self, node: str, target: str, reason: str) -> None:
        super().__init__(f"node '{node}' cannot be exported to {target}: {reason}")


class Target(Protocol):
    """A kind of file that graphs are exported to."""

    suffix: str
    """The end of its file names."""

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        """Write the file and return what runs it; `batch` is an example of the inputs."""


TARGETS: Registry[Target] = Registry("export target")


@dataclass(frozen=True)
class Exported:
    """A file that was written, and the comparison that proves it."""

    path: Path
    target: str
    proof: Proof
    sha256: str
    num_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return what `summary.json` has about the file."""
        return {
            "file": str(self.path),
            "target": self.target,
            "bytes": self.num_bytes,
            "sha256": self.sha256,
            **self.proof.as_dict(),
        }


def file_name(target: str) -> str:
    """Return the name of a target's file in a folder: `model.onnx`, `model.qonnx.onnx`."""
    suffix = TARGETS[target].suffix
    return f"model{suffix}" if suffix == f".{target}" else f"model.{target}{suffix}"


def export_graph(
    graph: MaseGraph, path: Path, target: str, batches: Iterable[Batch], options: ExportOptions | None = None
) -> Exported:
    """Write `graph` to `path`, run the file on `batches`, and keep it if its outputs are those of the graph."""
    chosen, options, graph = TARGETS[target], options or ExportOptions(), on_cpu(graph)
    given = moved(list(limited_batches(batches, options.samples)), CPU)
    if not given:
        raise ValueError("an export is proven on samples: there are none")
    if not path.suffix:
        path = path.with_suffix(chosen.suffix)
    if path.suffix != chosen.suffix:
        raise ValueError(f"files of the target '{target}' end in '{chosen.suffix}', got '{path}'")
    with _folder_of(path), atomic_path(path) as temporary:
        engine = chosen.write(graph, temporary, given[0], options)
        proof = compare(graph, engine, given)
        if not proof.explained:
            raise ValueError(f"'{path}' is not written, because the {target} file computes something else: {proof}")
        content = temporary.read_bytes()
    return Exported(path, target, proof, hashlib.sha256(content).hexdigest(), len(content))


@contextmanager
def _folder_of(path: Path) -> Iterator[None]:
    """Create the folder of a file; remove it after an error, if it did not exist."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty: another process writes to it
            for folder in missing:
                folder.rmdir()
        raise


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
