"""`ch test`: a model measured on the test part of a data set."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from chop.actions.config import TestConfig
from chop.actions.run_folder import describe_run, make_run_folder, write_metrics, write_summary
from chop.actions.setting import prepare
from chop.actions.training.batches import in_order, place
from chop.actions.training.devices import make_fabric
from chop.actions.training.metrics import evaluate
from chop.actions.training.report import report_test

logger = logging.getLogger(__name__)


def test(config: TestConfig) -> Path:
    """Test as `config` says; the folder of the run is returned."""
    setting = prepare(config)
    fabric = make_fabric(config, single=True)
    if config.load_name is None:
        logger.warning("no checkpoint is loaded: these are fresh weights of '%s'; --load names one", config.model)
    model = fabric.setup(setting.model)
    rows = place(setting.data.splits.test, fabric.device)
    start = time.perf_counter()
    with setting.fitting_threads(config.batch_size):
        result = evaluate(model, in_order(rows, config.batch_size), setting.num_classes, fabric.device)
    seconds = time.perf_counter() - start
    folder = make_run_folder(config)
    numbers = {"accuracy": result.accuracy, "loss": result.loss}
    write_metrics(folder, [{"step": 0, "epoch": 0, "test_loss": result.loss, "test_accuracy": result.accuracy}])
    summary = describe_run("test", config, setting)
    checkpoint = None if config.load_name is None else str(config.load_name)
    confusion = result.confusion.tolist()
    write_summary(
        folder,
        summary
        | {"checkpoint": checkpoint, "test": numbers | {"confusion": confusion}, "seconds": round(seconds, 3)}
        | {"device": str(fabric.device)},
    )
    report_test(result, config.model, setting.data.dataset_info, folder)
    return folder


test.__test__ = False  # type: ignore[attr-defined]  # no test case, whatever pytest makes of its name
