"""The model of a run, made ready for hardware, with what that does to its accuracy."""

from __future__ import annotations

import logging

from chop.config import CheckedCircuitOptions
from chop.display.numbers import percent
from chop.hardware.prepare import HardwareModel, prepare
from chop.runs.run import Run
from chop.statistics.scoring import accuracy_on

logger = logging.getLogger(__name__)


def prepare_run(run: Run, options: CheckedCircuitOptions) -> HardwareModel:
    """Fold batch norms and complete the formats of a run's model; log what was done, and the change in accuracy."""
    graph = run.experiment.annotated_graph()
    prepared = prepare(graph, options.strict)
    for node in prepared.removed:
        logger.info("'%s' at the end is left out: the circuit returns its inputs, whose largest is the same", node)
    for norm, node in prepared.renamed.items():
        logger.info("batch norm '%s' is folded into '%s'", norm, node)
    for node, formats in prepared.resolved.completed.items():
        shown = ", ".join(f"{name} {number_format}" for name, number_format in formats.items())
        logger.info("formats of '%s' are completed: %s", node, shown)
    for node, scale in prepared.resolved.scales.items():
        logger.info("the scale of the weights of '%s' is rounded to fixed point: %g", node, scale)
    if prepared.program.beyond_float32:
        nodes = ", ".join(prepared.program.beyond_float32)
        logger.warning("sums of %s exceed 2**24, which float32 does not hold: compared in float64", nodes)
    batches = run.test_batches(options.samples)
    before, after = (accuracy_on(each, batches.labelled()) for each in (graph, prepared.graph))
    if before is not None and after is not None:
        values = percent(before), percent(after)
        logger.info("accuracy on %d test samples: %s as saved, %s as hardware", batches.num_samples, *values)
    return prepared
