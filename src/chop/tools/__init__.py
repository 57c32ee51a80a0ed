"""What users hold in their hands around the graph: inputs, checkpoints, the log."""

from chop.tools.checkpoint_load import load_model
from chop.tools.get_input import InputGenerator
from chop.tools.logger import get_logger, set_logging_verbosity

__all__ = ["InputGenerator", "get_logger", "load_model", "set_logging_verbosity"]
