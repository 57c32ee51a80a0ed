"""Random command lines and TOML files, run by the real entry point of `ch`.

Every case ends with exit code 0, or with 2 and one line about the error. After an error nothing is left behind.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args, get_origin

from chop.config import ACTIONS
from chop.formats import FORMATS, parameters
from chop.nn.quantized.config import ROLES
from chop.options import type_hints
from chop.passes import PASSES
from chop.toml import write_toml
from fuzz.command import run_ch

TIME_LIMIT = 60.0

Case = dict[str, Any]

MODELS = ("toy", "jsc-tiny", "jsc-toy", "jsc-mlp")
DATASETS = ("toy_tiny", "toy_tiny", "rows.csv", "jsc")
BASE = {"batch_size": 32, "max_epochs": 1, "max_steps": 2, "n_trials": 2, "samples": 4, "accelerator": "cpu"}
"""Options of every case, so that it is quick."""
UNSAFE = ("config", "open", "num_devices", "nodes", "workers", "num_workers", "trust", "plugins")
"""Options that are not drawn: they open a browser, start processes, or wait for other machines."""
UNBOUNDED = ("max_epochs", "max_steps", "n_trials", "finetune", "timeout")
"""Options for which a large value is valid, and takes long."""

OTHERS = tuple(name for name in ACTIONS if name != "demo")  # it trains for a minute
NUMBERS: tuple[Any, ...] = (-(2**70), -1, -0.5, 0, 1, 2, 3, 1e-300, 0.5, 1e308, 2**31, 2**63, 2**64, 2**70, 10**400)
WORDS = (
    *("", " ", "NA", "none", "auto", "nan", "inf", "-inf", "0", "-1", "True", "é", "a b", "x" * 5000, "../.."),
    *("\u202e", "\\", "'", '"', "%s", "{}", "a,b", "1,2", "1e400", "0x10", "/", ".", "~", "-", "--", "="),
)
REFERENCES = ("sys:x", "os:system", "timeit:timeit", "no.py:Net", "rows.csv:x", ":", "a:", ":a", "torch.nn:Linear")


def draw(random: Random) -> Case:
    """Draw an action with options on the command line and in a TOML file, a few of them nonsense."""
    action = random.choice(["train", "train", "test", "transform", "transform", "search", "search", *OTHERS])
    options: dict[str, Any] = {"model": random.choice(MODELS), "dataset": random.choice(DATASETS)}
    options |= {"data_options": {"num_rows": 100}} if options["dataset"] == "jsc" else {}
    known = {field.name for field in fields(ACTIONS[action])}
    options |= {name: value for name, value in BASE.items() if name in known}
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        name, value = _option(random, action)
        options[name] = value
    if random.random() < 0.05:
        options[random.choice(("model", "dataset"))] = random.choice((*REFERENCES, *WORDS))
    if action == "transform":
        options["passes"] = _passes(random)
    if action == "search":
        options["search"] = _search(random)
    if action not in ("train", "test", "transform", "search"):
        return {"action": action, "words": _words(random, action), "toml": None}
    in_file = {name: value for name, value in options.items() if _only_toml(value) or random.random() < 0.5}
    if "model" in in_file and random.random() < 0.9:  # the first of two arguments would be the model
        in_file["dataset"] = options["dataset"]
    words = _as_words({name: value for name, value in options.items() if name not in in_file})
    return {"action": action, "words": words, "toml": in_file}


def check(case: Case, folder: Path) -> None:
    """Run the command; `run_ch` checks the outcome."""
    rows = "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(60))
    (folder / "rows.csv").write_text(f"p,q,label\n{rows}")
    words = [case["action"], *case["words"]]
    if case["toml"] is not None:
        (folder / "case.toml").write_text(write_toml(case["toml"]), encoding="utf-8")
        words += ["--config", "case.toml"]
    if case["action"] == "view":
        words += ["--port", "no port"]  # otherwise it serves until it is stopped
    outcome = run_ch(words, folder)
    if outcome.code == 0 and case["action"] in ("train", "test", "transform", "search"):
        saved = outcome.out.splitlines()[-1].removeprefix("saved in ")
        assert (folder / saved).exists(), f"'{saved}' does not exist"


def _option(random: Random, action: str) -> tuple[str, Any]:
    """Draw an option of an action: with a plausible value, with nonsense, or under a name that does not exist."""
    if random.random() < 0.05:
        return random.choice(("batchsize", "x", "seed_", "Model", "data", "passes_", "é")), _value(random)
    cls = ACTIONS[action]
    names = [field.name for field in fields(cls) if field.name not in UNSAFE]
    name = random.choice(names)
    if random.random() < 0.7 and (choices := _choices(type_hints(cls)[name])):
        return name, random.choice(choices)
    value = _value(random)
    is_large = isinstance(value, int | float) and value > 3
    return name, 1 if name in UNBOUNDED and is_large else value


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return values that fit the type of an option."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if bool in (hint, *get_args(hint)):
        return (True, False)
    if int in (hint, *get_args(hint)):
        return (0, 1, 2, 3)
    return (0.0, 0.5, 1) if float in (hint, *get_args(hint)) else ()


def _value(random: Random, depth: int = 0) -> Any:
    """Draw a value that users should not write, of any type."""
    kinds = ("number", "number", "word", "word", "bool", "special") + (("list", "table") if depth < 2 else ())
    match random.choice(kinds):
        case "number":
            return random.choice(NUMBERS)
        case "word":
            return random.choice(WORDS)
        case "bool":
            return random.random() < 0.5
        case "list":
            return [_value(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3)))]
        case "table":
            return {random.choice(("a", "path", "num_rows", "config")): _value(random, depth + 1)}
        case _:
            return random.choice((float("inf"), float("nan"), -0.0, float("-inf")))


def _passes(random: Random) -> dict[str, Any]:
    """Draw the `[passes]` table: mostly quantisation, with any pass among them."""
    passes: dict[str, Any] = {}
    if random.random() < 0.8:
        by = random.choice(("type", "type", "name", "regex_name"))
        passes["quantize"] = {"by": by, **_nodes(random, by, choices=False)}
    for _ in range(random.choice((0, 0, 1, 2))):
        args = {random.choice(("path", "num_samples", "by", "x")): _value(random)} if random.random() < 0.3 else {}
        passes[random.choice((*PASSES, *PASSES, "no_pass"))] = args
    return passes


def _search(random: Random) -> dict[str, Any]:
    """Draw the `[search]` table."""
    by = random.choice(("name", "type"))
    table: dict[str, Any] = {"search_space": {"setup": {"by": by}, "seed": _nodes(random, by, choices=True)}}
    sampler = random.choice(("tpe", "random", "nsga2", "qmc", "brute_force", "Random"))
    strategy: dict[str, Any] = {"setup": {"n_trials": 2, "timeout": 20, "sampler": sampler}}
    if random.random() < 0.15:
        strategy["metrics"] = {random.choice(("accuracy", "loss", "x")): {"scale": _value(random)}}
    if random.random() < 0.15:
        strategy["setup"][random.choice(("n_jobs", "direction", "x"))] = random.choice((0, "x", True, []))
    if random.random() < 0.15:
        table["search_space"]["training"] = {random.choice(("learning_rate", "batch_size", "x")): [_value(random)]}
    return table | {"strategy": strategy}


def _nodes(random: Random, by: str, choices: bool) -> dict[str, Any]:
    """Draw configs of nodes or types; with `choices`, their values are lists."""
    known = {"type": ("linear", "relu", "batch_norm1d"), "name": ("seq_blocks_0", "seq_blocks_1", "seq_blocks_2")}
    keys = ["default", *random.sample(known.get(by, (".*2", "seq.*", "x")), random.choice((1, 2)))]
    keys += ["no_node"] if random.random() < 0.03 else []
    return {key: {"config": _format_config(random, choices)} for key in keys}


def _format_config(random: Random, choices: bool) -> dict[str, Any]:
    name = random.choice((*FORMATS, *FORMATS, *FORMATS, "NA", "no_format"))
    config: dict[str, Any] = {"name": [name] if choices else name}
    for role in ROLES:
        for parameter in parameters(FORMATS[name]) if name in FORMATS else ():
            if random.random() < 0.3:
                good = (*parameter.metadata["search"], parameter.default)
                values = [each for each in good if each is not None] or [1]
                value = random.choice(values) if random.random() < 0.97 else _value(random)
                config[f"{role}_{parameter.name}"] = [value] * random.choice((1, 2)) if choices else value
    return config


def _words(random: Random, action: str) -> list[str]:
    """Draw arguments of a command that reads no configuration file."""
    kinds = ("models", "datasets", "formats", "passes", "ops", "latest", "toy", "integer", *WORDS)
    positional = [random.choice(kinds) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    options = dict(_option(random, action) for _ in range(random.choice((0, 1, 2))))
    return positional + _as_words({name: value for name, value in options.items() if not _only_toml(value)})


def _only_toml(value: object) -> bool:
    return isinstance(value, dict | list)


def _as_words(options: dict[str, Any]) -> list[str]:
    """Return options as arguments: the model and the data set first, then `--name=value`."""
    words = [str(options[name]) for name in ("model", "dataset") if name in options]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in ("model", "dataset"):
            words += [flag] if value is True else [f"{flag}={_text(value)}"]
    return words


def _text(value: object) -> str:
    return "1" + "0" * 400 if value == 10**400 else str(value)
