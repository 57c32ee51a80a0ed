"""What a run is on disk, and the model and data that a configuration names."""

from chop.runs.experiment import Experiment
from chop.runs.folder import RunFolder
from chop.runs.listing import find_run, list_runs
from chop.runs.run import Run, open_run

__all__ = ["Experiment", "Run", "RunFolder", "find_run", "list_runs", "open_run"]
