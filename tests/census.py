"""The census in docs/captured-models.md: `make census` tries each architecture of transformers and writes the page.

`python tests/census.py LlamaForCausalLM ...` tries some and prints the results.
"""

from __future__ import annotations

import logging
import multiprocessing
import re
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from textwrap import shorten
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn

from architectures import TASKS, architectures, batch_for, tiny_model
from chop.ir import MaseGraph
from chop.passes import PASSES
from real_models_table import PAGE, quantized, tensors

BEGIN, END = "<!-- census -->\n", "\n<!-- end of census -->"
MAX_SECONDS, MAX_GIGABYTES = 300, 10
"""What one architecture may take."""
TOLERANCE = 1e-4
"""The largest difference of outputs that are equal, relative to the largest value."""
WORKS, FIXED_ROWS = "works", "works for a fixed number of rows"
NO_MODEL, REFUSED, WRONG, FAILED = "no tiny model", "refused", "wrong", "failed"
COLUMNS = (WORKS, FIXED_ROWS, REFUSED, WRONG, FAILED, NO_MODEL)


class Outcome(NamedTuple):
    """What became of an architecture: one of `COLUMNS`, and why."""

    result: str
    reason: str = ""


def tried(name: str) -> Outcome:
    """Return what happens when a tiny model of a class is captured, quantised to 8 bits and run."""
    task = architectures()[name]
    try:
        model = tiny_model(name)
        batch = batch_for(model, task)
        outputs(model, batch)
    except Exception as error:  # noqa: BLE001 - any error of a configuration or a model is the reason
        return Outcome(NO_MODEL, _reason(error))
    try:
        graph = MaseGraph(model, example_inputs=batch)
    except ValueError as error:
        return Outcome(REFUSED, _reason(error))
    except Exception as error:  # noqa: BLE001 - a line of the table
        return Outcome(FAILED, f"{type(error).__name__}: {_reason(error)}")
    try:
        return _compared(model, graph, batch, batch_for(model, task, rows=3))
    except Exception as error:  # noqa: BLE001 - a line of the table
        return Outcome(FAILED, f"{type(error).__name__}: {_reason(error)}")


def _compared(model: nn.Module, graph: MaseGraph, batch: dict[str, Tensor], other: dict[str, Tensor]) -> Outcome:
    """Compare a graph with its model on the batch of the capture and on other values, and run it with 8 bits."""
    result = WORKS
    try:
        outputs(graph.model, other)
    except ValueError:
        result, other = FIXED_ROWS, {name: value[-len(batch[name]) :] for name, value in other.items()}
    for values in (batch, other):
        if (difference := _difference(outputs(model, values), outputs(graph.model, values))) > TOLERANCE:
            return Outcome(WRONG, f"the outputs differ by {difference:.1g} of the largest")
    graph = PASSES["init_metadata"](graph, None)[0]
    graph = PASSES["add_common_metadata"](graph, {"dummy_in": batch})[0]
    difference = _difference(outputs(graph.model, batch), outputs(quantized(graph, "INT8").model, batch))
    if not 0 < difference < float("inf"):
        return Outcome(WRONG, f"the outputs with 8 bits differ by {difference:.1g} of the largest")
    return Outcome(result)


def outputs(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, list[Tensor]]:
    """Return the tensors in each output of a model, by name."""
    torch.manual_seed(0)
    with torch.no_grad():
        output = model(**{name: value.clone() for name, value in batch.items()})
    return {name: tensors(value) for name, value in dict(output).items()}


def _difference(expected: Mapping[str, list[Tensor]], found: Mapping[str, list[Tensor]]) -> float:
    """Return the largest difference relative to the largest value, over the outputs of the graph.

    A graph does not return the cache of a language model.
    """
    pairs = [pair for name in found for pair in zip(expected[name], found[name], strict=True)]
    return max(_relative(a.double(), b.double()) for a, b in pairs)


def _relative(expected: Tensor, found: Tensor) -> float:
    if expected.shape != found.shape or not (expected.isfinite() == found.isfinite()).all():
        return float("inf")
    largest = expected.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-30)
    return float((expected - found).nan_to_num(0, 0, 0).abs().max() / largest)


def _reason(error: Exception) -> str:
    """Return the message of an error in one line, without what to do about it and where Python is installed."""
    text = " ".join(str(error).split()).partition(". An argument of forward")[0]
    return shorten(re.sub(r"/\S*/site-packages/", "", text).replace("|", "/"), 250)


_FORK = multiprocessing.get_context("fork")  # what is imported need not be imported again


def guarded(name: str) -> Outcome:
    """Return what becomes of an architecture in a process of its own, with limited time and memory."""
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_send, args=(name, sender))
    process.start()
    sender.close()
    try:
        return (
            receiver.recv() if receiver.poll(MAX_SECONDS) else Outcome(FAILED, f"takes more than {MAX_SECONDS} s")
        )
    except EOFError:
        return Outcome(FAILED, "the process ended")
    finally:
        process.kill()
        process.join()


def _send(name: str, sender: Connection[Outcome, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_GIGABYTES << 30,) * 2)
    sender.send(tried(name))


def table(outcomes: Mapping[str, Outcome], minutes: float) -> str:
    """Return the counts by task, and the reasons of all that do not work, in Markdown."""
    versions = f"transformers {transformers.__version__} and torch {torch.__version__.partition('+')[0]}"
    share = f"{len(outcomes)} of {len(architectures())} classes in {minutes:.0f} minutes"
    headline = f"{datetime.now(UTC):%Y-%m-%d}, {versions}, {share}:"
    others = [(name, *each) for name, each in outcomes.items() if each.result != WORKS]
    return "\n".join(
        [headline, "", *_lines(_counts(outcomes)), "", *_lines([("class", "result", "reason"), *others])]
    )


def _counts(outcomes: Mapping[str, Outcome]) -> Iterator[tuple[object, ...]]:
    yield ("task", "classes", *COLUMNS)
    tasks = architectures()
    for task in (*TASKS, "all"):
        counts = Counter(outcome.result for name, outcome in outcomes.items() if task in (tasks[name], "all"))
        yield (task.replace("_", " ").lower(), counts.total(), *(counts[column] for column in COLUMNS))


def _lines(rows: Any) -> list[str]:
    header, *others = ([str(cell) for cell in row] for row in rows)
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *others)]


def main(names: list[str]) -> None:
    """Try the named classes, or all, and write the page."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("chop").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    start = time.monotonic()
    tried("BertForMaskedLM")  # imports what all need
    outcomes = {}
    for name in names or architectures():
        outcomes[name] = guarded(name)
        print(f"{time.monotonic() - start:6.0f} s  {name}: {': '.join(filter(None, outcomes[name]))}", flush=True)
    if not names:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        result = table(outcomes, (time.monotonic() - start) / 60)
        PAGE.write_text(f"{before}{BEGIN}\n{result}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main(sys.argv[1:])
