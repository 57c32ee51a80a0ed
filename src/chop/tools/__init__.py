"""Tools around a graph: batches, checkpoints, logging and memory; also under the import paths of MASE."""

from chop.runs.input_generator import InputGenerator
from chop.runs.weights import load_model
from chop.tools.logger import get_logger, set_logging_verbosity

__all__ = ["InputGenerator", "get_logger", "load_model", "set_logging_verbosity"]
