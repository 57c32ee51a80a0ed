"""The journal of a study: complete lines only, read as Optuna reads them."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState, create_trial

from chop.runs import RunFolder
from chop.searching.space.space import OptionChoices, Space
from chop.searching.study import journal as module
from chop.searching.study.journal import Journal
from chop.searching.study.storage import open_journal
from chop.searching.study.study import Study

SPACE = Space((), (OptionChoices("s", {"x": (1, 2, 3)}),))


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_an_incomplete_last_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n"')
    Journal(path).repair()
    assert path.read_bytes() == b'{"n":1}\n{"n":2}\n'


def test_the_next_write_removes_an_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    with path.open("ab") as file:
        file.write(b'{"n":2')
    journal.append_logs([{"n": 3}, {"n": 4}])
    assert numbers(path) == [1, 3, 4]
    assert list(Journal(path).read_logs(0)) == [{"n": 1}, {"n": 3}, {"n": 4}]


def test_a_full_disk_leaves_complete_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    write = os.write

    def write_partly(file: int, content: bytes) -> int:
        if len(content) < 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[:-4])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_partly)
        with pytest.raises(OSError, match=r"No space left.*study\.journal"):
            journal.append_logs([{"n": 2}])
    assert path.read_bytes() == b'{"n":1}\n'


def _append(path: Path, first: int) -> None:
    journal = Journal(path)
    for number in range(first, first + 50):
        journal.append_logs([{"n": number, "filler": "x" * 2000}])


@pytest.mark.slow
def test_lines_of_concurrent_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(path, 50 * index)) for index in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(numbers(path)) == list(range(150))


def _crash_with_lock(path: Path) -> None:
    with Journal(path)._locked():
        os._exit(1)


@pytest.mark.slow
def test_a_lock_is_released_when_its_process_crashes(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    process = multiprocessing.get_context("fork").Process(target=_crash_with_lock, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 1
    Journal(path).append_logs([{"n": 1}])
    assert numbers(path) == [1]


def test_a_journal_can_be_read_by_optuna_itself(tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_journal(RunFolder(tmp_path)).backend, study_name="s")
    study.tell(study.ask(), 0.5)
    plain = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "search" / "study.journal"))
    )
    assert optuna.load_study(study_name="s", storage=plain).best_value == 0.5


@pytest.mark.slow
def test_optuna_dashboard_shows_a_journal(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")
    study = optuna.create_study(storage=open_journal(RunFolder(tmp_path)).backend, study_name="widths of layers")
    study.tell(study.ask(), 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = Path(sys.executable).with_name("optuna-dashboard")
    process = subprocess.Popen(
        [command, tmp_path / "search" / "study.journal", "--port", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies") as page:
                    (shown,) = json.load(page)["study_summaries"]
                break
            except OSError:
                assert time.monotonic() < end, "the dashboard does not answer"
                time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
    assert shown["study_name"] == "widths of layers"


def test_opening_a_journal_reads_each_distribution_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the choices of each dimension of each trial made up most of the time of opening 20,000 trials."""
    folder = RunFolder(tmp_path)
    with (written := open_journal(folder)).heartbeat:
        study = Study.create(written, "s", ["maximize"])
        assert study is not None
        study.plan([{"s/x": 1 + number % 3} for number in range(30)], SPACE)
    calls: list[str] = []

    def counting(text: str) -> BaseDistribution:
        calls.append(text)
        return optuna.distributions.json_to_distribution(text)

    monkeypatch.setattr(module, "json_to_distribution", counting)
    module._read_distributions.cache_clear()
    again = Study.load(open_journal(folder), "s")
    assert again is not None
    assert [record.params["s/x"] for record in again.records()] == [1 + number % 3 for number in range(30)]
    assert len(calls) == 1


def test_a_journal_is_read_as_by_optuna(tmp_path: Path) -> None:
    """Trials in every state, changed in every way that a journal can store."""
    backend = open_journal(RunFolder(tmp_path)).backend
    optuna.create_study(storage=backend, study_name="deleted").ask()
    optuna.delete_study(study_name="deleted", storage=backend)
    study = optuna.create_study(storage=backend, study_name="s", directions=["maximize", "minimize"])
    distributions: dict[str, BaseDistribution] = {"x": CategoricalDistribution((1, "two", None))}
    for state, values in ((TrialState.COMPLETE, [1.0, 2.0]), (TrialState.WAITING, None), (TrialState.FAIL, None)):
        params = {"x": "two"}
        study.add_trial(
            create_trial(
                state=state, values=values, params=params, distributions=distributions, user_attrs={"a": 1}
            )
        )
    study.enqueue_trial({"x": None})
    for outcome in (None, [0.5, float("inf")], [1.0, 2.0]):
        trial = study.ask()
        trial.suggest_categorical("x", (1, "two", None))
        trial.suggest_float("y", 0.0, 1.0)
        trial.set_user_attr("metrics", {"accuracy": 0.5})
        study.tell(trial, outcome, TrialState.FAIL if outcome is None else None)
    backend.set_trial_intermediate_value(study.ask()._trial_id, 3, 0.25)
    study.enqueue_trial({"x": 1}, user_attrs={"a": 1})
    plain = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "search" / "study.journal"))
    )
    expected = plain.get_all_trials(study._study_id)
    assert {trial.state for trial in expected} == set(TrialState) - {TrialState.PRUNED}
    assert backend.get_all_trials(study._study_id) == expected
    opened = open_journal(RunFolder(tmp_path)).backend
    assert opened.get_all_trials(study._study_id) == expected
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        opened.set_trial_user_attr(expected[0]._trial_id, "a", 2)


def test_lines_of_two_processes_are_read_in_their_order(tmp_path: Path) -> None:
    """A process does not read its own lines from the file, unless there are lines of others before them."""
    path = tmp_path / "study.journal"
    first, second = Journal(path), Journal(path)
    first.append_logs([{"n": 1}, {"n": 2}])
    second.append_logs([{"n": 3}])
    first.append_logs([{"n": 4}])
    assert [list(each.read_logs(0)) for each in (first, second)] == [[{"n": n} for n in (1, 2, 3, 4)]] * 2
    first.append_logs([{"n": 5}])
    assert list(first.read_logs(4)) == [{"n": 5}] == list(second.read_logs(4))
    second.append_logs([{"n": 6}])
    first.append_logs([{"n": 7}])
    assert [list(each.read_logs(5)) for each in (first, second)] == [[{"n": 6}, {"n": 7}]] * 2
    assert [list(each.read_logs(7)) for each in (first, second)] == [[], []]
