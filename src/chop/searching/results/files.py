"""The files of a search: the best configuration, the front, the plot, and all trials."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chop.config.settings import write_options
from chop.display.numbers import counted
from chop.files import CorruptFileError, atomic_path, read_json, write_text
from chop.runs import Experiment, RunFolder
from chop.searching.evaluation.objectives import known_metrics
from chop.searching.evaluation.problem import Problem
from chop.searching.evaluation.transform_config import command_of_best, transform_config
from chop.searching.results.results import BestTrial, Importances, Results
from chop.searching.space import Configuration
from chop.searching.spec import SearchSpec
from chop.searching.study.study import ORIGINAL, Study, TrialRecord
from chop.training.budget import Correct

if TYPE_CHECKING:
    import pandas as pd


IMPORTANCES = "importances"
"""The key of the summary that holds the importance of choices."""


@dataclass(frozen=True)
class ResultFiles:
    """The files of a search in its run folder."""

    folder: RunFolder
    spec: SearchSpec
    experiment: Experiment
    problem: Problem

    def write(self, study: Study, *, checks_budget: bool = False) -> Results:
        """Write all files, each atomically, and return the results; files that are up to date stay as they are.

        With `checks_budget`, the best trial is one that keeps `max_drop` on rows that the search has not seen.
        """
        results = Results.of(study, self.spec.objectives, self.problem.space, self.spec.config.task)
        budget = self.spec.budget(self.experiment, self.problem) if checks_budget and results.complete else None
        if budget is not None:
            prefilter = self.spec.evaluation.on_validation_rows
            results = results.checked(budget, self._correct, prefilter=prefilter)
        best = results.best(self.spec.config.max_drop)
        summary = self._summary(study, results, best)
        if (known := self._importances_if_up_to_date(summary)) is not None:
            return replace(results, known_importances=known)
        # Here, because importing Matplotlib takes long, and only the process that writes the files needs it.
        from chop.searching.results.pareto_plot import draw_front

        if best.record is None:
            self.folder.best_config.unlink(missing_ok=True)
        else:
            configuration = self.problem.space.configuration(best.record.params)
            choice = results.choice
            comments = self._comments(best.record, best.rule, () if choice is None else choice.text.splitlines())
            write_text(self.folder.best_config, self._toml(configuration, comments))
        front = _front_table(results, self.spec.config.max_drop)
        write_text(self.folder.front_table, front.to_csv(index=False))
        write_text(self.folder.search_log, _log_text(self._log(study, results)))
        with atomic_path(self.folder.trials_table) as path:
            _trials_table(results).to_parquet(path, index=False)
        title = f"{self.spec.config.model}, data: {self.experiment.data.dataset_info.title}"
        draw_front(results, best.record, title, self.folder.front_plot)
        # Last: it says that the other files are complete.
        self.folder.write_summary({**summary, IMPORTANCES: results.importances_of_shown_metrics()})
        return results

    def _importances_if_up_to_date(self, summary: Mapping[str, Any]) -> Importances | None:
        """Return the importances in the summary if all files were written for the same trials and options.

        Computing them takes longer than the rest, because Optuna imports scikit-learn for it.
        """
        folder = self.folder
        files = (folder.front_table, folder.search_log, folder.trials_table, folder.front_plot, folder.summary)
        if not all(file.is_file() for file in files):
            return None
        try:
            stored = folder.read_summary()
        except ValueError:  # it is corrupt
            return None
        known = stored.pop(IMPORTANCES, None)
        return known if isinstance(known, dict) and stored == json.loads(json.dumps(summary)) else None

    def _toml(self, configuration: Configuration, comments: Sequence[str] = ()) -> str:
        """Return a configuration as a TOML file for `ch transform`, with its training options for `ch train`."""
        config = transform_config(self.spec.config, self.problem.units(configuration), configuration)
        training = dict(self.problem.training_options(configuration))
        # The batch size of the training must not replace that of the rows which formats are fitted to.
        if (batch_size := training.pop("batch_size", None)) is not None:
            comments = (*comments, f"It was trained with a batch size of {batch_size}.")
        lines = "".join(f"# {line}\n" for line in comments)
        return lines + write_options(config, only_changed=True, others=training)

    def _correct(self, trial: TrialRecord) -> Correct:
        return self.problem.correct(self.problem.space.configuration(trial.params))

    def _comments(self, trial: TrialRecord, rule: str, losses: Sequence[str]) -> list[str]:
        names = [name for name in known_metrics() if name in trial.metrics]
        metrics = ", ".join(f"{name} {trial.metrics[name]:.6g}" for name in names)
        comments = [
            f"Trial {trial.number}: {rule}.",
            f"On {counted(self.problem.num_rows, 'row')} of {self.spec.evaluation.data_loader}: {metrics}.",
            *losses,
        ]
        if "epochs" in trial.metrics:
            comments.append("These are the formats before the training. To get the trained weights:")
        return [*comments, f"  {command_of_best(self.folder, trial.number, trial.metrics)}"]

    def _log(self, study: Study, results: Results) -> dict[str, Any]:
        space, front = self.problem.space, {record.number for record in results.front}
        trials = [
            _log_entry(record.number, record.state, record.metrics)
            | {"params": record.params, "front": record.number in front, "reason": record.reason}
            | ({"toml": self._toml(space.configuration(record.params))} if record.number in front else {})
            for record in results.records
        ]
        baselines = [
            _log_entry(-1 - index, "complete", each.metrics)
            | {"baseline": each.label, "toml": self._toml(each.configuration)}
            for index, each in enumerate(results.baselines)
        ]
        objectives = self.spec.objectives.items
        return {
            "study": study.name,
            ORIGINAL: _finite(results.original),
            "metrics": {each.name: {"direction": each.direction, "scale": each.scale} for each in objectives},
            "trials": [*trials, *baselines],
        }

    def _summary(self, study: Study, results: Results, best: BestTrial) -> dict[str, Any]:
        config = self.spec.config
        states = [record.state for record in results.records]
        return {
            **self.experiment.describe("search"),
            "checkpoint": None if config.load_name is None else str(config.load_name),
            "study": study.name,
            "strategy": config.search.strategy.name,
            "evaluated_on": self.spec.evaluation.data_loader,
            "trials": {state: states.count(state) for state in sorted(set(states))},
            ORIGINAL: _finite(results.original),
            "best": None if best.record is None else {"trial": best.record.number, **_finite(best.record.metrics)},
            "rule": best.rule,
            **({} if results.choice is None else {"budget": results.choice.summary}),
            "baselines": {each.label: _finite(each.metrics) for each in results.baselines},
            "pareto_optimal_baselines": [each.label for each in results.pareto_optimal_baselines],
            "front": len(results.front),
        }


def _log_text(log: Mapping[str, Any]) -> str:
    """Return the log as JSON with one line per trial: indenting a long one takes ten times as long."""
    trials = ",\n  ".join(json.dumps(trial) for trial in log["trials"])
    others = json.dumps({key: value for key, value in log.items() if key != "trials"}, indent=1)
    return f'{others.removesuffix("}").rstrip()},\n "trials": [\n  {trials}\n ]\n}}\n'


def read_log(folder: RunFolder) -> dict[str, Any]:
    """Return the content of the log of a search."""
    log = read_json(folder.search_log)
    if not isinstance(log.get("trials"), list):
        raise CorruptFileError(f"{folder.search_log} is corrupt: it does not hold a list of trials")
    return log


def _front_table(results: Results, max_drop: float | None) -> pd.DataFrame:
    import pandas as pd  # here and below, because importing it takes a third of a second

    rows, within = [], results.within(max_drop)
    for record in results.front:
        uniform: dict[str, str | float] = {}
        if (baseline := results.nearest_baseline(record.metrics)) is not None:
            metrics = {f"uniform_{name}": baseline.metrics[name] for name in ("accuracy", results.cost.name)}
            uniform = {"uniform": baseline.label, **metrics}
        budget = {} if max_drop is None else {"within_max_drop": record in within}
        rows.append({"trial": record.number, **budget, **record.metrics, **uniform, **record.params})
    return pd.DataFrame(rows, columns=None if rows else ["trial"])


def _trials_table(results: Results) -> pd.DataFrame:
    import pandas as pd

    front = {record.number for record in results.front}
    table = pd.DataFrame(
        {
            "trial": record.number,
            "state": record.state,
            "seconds": record.seconds,
            "reason": record.reason,
            "front": record.number in front,
            **{f"metric.{name}": value for name, value in record.metrics.items()},
            **{f"param.{name}": value for name, value in record.params.items()},
        }
        for record in results.records
    )
    for name in table.columns:  # a Parquet column has one type: a choice between numbers and names becomes text
        if name.startswith("param.") and table[name].dropna().map(type).nunique() > 1:
            table[name] = table[name].map(lambda value: None if pd.isna(value) else str(value))
    return table


def _log_entry(number: int, state: str, metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return a trial as the log holds it."""
    empty = {"params": {}, "front": False, "baseline": None, "toml": None, "reason": None}
    return {"number": number, "state": state, "metrics": _finite(metrics), **empty}


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics without infinity and NaN, which JSON cannot express."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
