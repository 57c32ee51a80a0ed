"""What the files of other people name: modules, pipes and devices, other files, ONNX graphs, labels.

Only files that were checked run, nothing waits for ever, no other file is read, and a result is the one that
onnxruntime has; everything else is refused in one sentence.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

import chop
from chop.dataset import FileDataset
from chop.dataset.readers.arrays import read_hdf5
from chop.models.onnx_reader.read import read_onnx
from chop.plugins import load_object, source_files
from chop.registry import UnknownNameError
from chop.reporting.view.overview import overview_page
from chop.reporting.view.pages import run_page
from chop.reporting.view.run_record import list_records
from chop.runs import RunFolder, find_run, list_runs
from chop.trusted_files import UntrustedFileError, check_trusted

TIME_LIMIT = 20.0
Case = dict[str, Any]


def draw(random: Random) -> Case:
    kind = random.choice(list(KINDS))
    return {"kind": kind, "seed": random.randrange(10**9)}


def check(case: Case, folder: Path) -> None:
    KINDS[case["kind"]](Random(case["seed"]), folder)


def _check_message(text: str, path: Path) -> None:
    assert "\n" not in text, "the message has several lines"
    assert str(path) in text, f"the message does not name the file: {text}"


# Modules

PARTS = (
    "net",
    "a-b",
    "p q",
    "1x",
    "é",
    "x.y",
    "for",
    "__init__",
    "json",
    "torch",
    "tar:zip",
    "",
    "a'b",
    "Net",
)
ENDINGS = (".py", ".py", ".py", "/__init__.py", "/__init__.py", ".pyc", ".so", "", ".PY")


def _check_modules(random: Random, folder: Path) -> None:
    with patch.dict(os.environ, XDG_STATE_HOME=str(folder)), patch("chop.plugins._loaded", {}):
        _check_files_that_run(random, folder)


def _check_files_that_run(random: Random, folder: Path) -> None:
    ran: list[str] = []
    setattr(chop, "files_that_ran", ran)  # noqa: B010  # the files below find it there
    paths: list[Path] = []
    for _ in range(random.randint(1, 6)):
        stem = "/".join(random.choice(PARTS) for _ in range(random.randint(1, 3))).strip("/")
        path = Path(f"{folder}/{stem}{random.choice(ENDINGS)}")  # not absolute, whatever the ending
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if random.random() < 0.1 and paths:
                path.symlink_to(random.choice(paths))
            else:
                path.write_text("import chop\nchop.files_that_ran.append(__file__)\nclass Net: pass\n")
            paths.append(path)
    reference = ".".join(random.choice((*PARTS, "..")) for _ in range(random.randint(1, 3))) + ":Net"
    if random.random() < 0.2 and paths:
        reference = f"{os.path.relpath(random.choice(paths), folder)}:Net"
    known = dict(sys.modules)
    try:
        files = source_files(reference)
        checked = {os.path.abspath(file) for file in files} | {str(file.resolve()) for file in files}
        present = {os.path.abspath(file) for file in files if file.is_file()}
        assert _refused(files) == present, f"{reference}: some of {files} are trusted"
        assert not ran, f"{reference}: finding it ran {ran}"
        with suppress(ValueError, OSError):
            load_object(reference)
        assert set(ran) <= checked, f"{reference} ran {ran}, but {files} were checked"
    finally:
        for name in set(sys.modules) - set(known):
            del sys.modules[name]


def _refused(files: list[Path]) -> set[str]:
    try:
        check_trusted(files, Path("a.toml"))
    except UntrustedFileError as error:
        return {str(file) for file in error.files}
    return set()


# Special files in run folders

NAMES = (
    "run.toml",
    "summary.json",
    "grid.json",
    "metrics.jsonl",
    "report.html",
    "sweep.csv",
    "grid.csv",
    "software",
)
TEXTS = (
    "",
    "{}",
    "[[" * 5000,
    '{"action": "train"}',
    "# started 2026",
    "# started 2026-01-01T00:00:00+00:00\n",
    "\0",
)


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


def _check_runs(random: Random, folder: Path) -> None:
    ways: tuple[Callable[[Path], Any], ...] = (
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.name),
        lambda path: path.symlink_to("/proc/self/environ"),
        lambda path: path.symlink_to(folder / "pipe"),
        lambda path: path.mkdir(),
        lambda path: path.write_text(random.choice(TEXTS)),
        lambda path: path.write_bytes(random.randbytes(30)),
        lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 2**33),
    )
    os.mkfifo(folder / "pipe")
    runs = folder / "runs"
    for number in range(random.randint(1, 4)):
        run = runs / f"run{number}"
        run.mkdir(parents=True)
        os.chdir(run)  # the path of a socket is short
        for name in random.sample(NAMES, random.randint(1, len(NAMES))):
            random.choice((*ways, _make_socket))(run / name)
    os.chdir(folder)
    for read in (
        lambda: find_run(None, runs),
        lambda: chop.open_run(None, runs),
        lambda: find_run(Path("run0"), runs),
    ):
        with suppress(ValueError, OSError, UnknownNameError):
            read()
    for found in list_runs(runs):
        with suppress(ValueError, OSError):
            RunFolder(found.path).read_summary()
    records = list_records(runs)
    pages = [overview_page(runs, records), *map(run_page, records)]
    assert not any("PATH=" in page for page in pages), "a file outside of the run was read"


# HDF5

SECRET = 41.5


def _check_hdf5(random: Random, folder: Path) -> None:
    np.full(64, SECRET, np.float32).tofile(folder / "secret.bin")
    with h5py.File(folder / "secret.h5", "w") as file:
        file["x"] = np.full((8, 2), SECRET, np.float32)
    os.mkfifo(folder / "pipe")
    with h5py.File(folder / "data.h5", "w") as file:
        for number in range(random.randint(1, 4)):
            name = random.choice(("x", "y", f"group/{number}", "é", "a b"))
            with suppress(ValueError, OSError, RuntimeError):  # the name exists
                _add_array(random, folder, file, name)
    with suppress(ValueError):
        content = read_hdf5(folder / "data.h5", random.choice((None, None, "x", "group/1")))
        for name in content.keys():  # noqa: SIM118  # a table or a dict
            assert not np.isin(SECRET, np.asarray(content[name])), f"'{name}' has the values of another file"


def _add_array(random: Random, folder: Path, file: Any, name: str) -> None:
    dtype = random.choice(("f4", "i8", np.dtype([("a", "f4"), ("b", "f4")])))
    other = random.choice(
        (str(folder / "secret.bin"), "secret.bin", str(folder / "pipe"), "secret.h5", "/dev/zero")
    )
    match random.choice(("own", "external", "virtual", "link", "soft", "reference", "filter")):
        case "external":
            file.create_dataset(name, (8,), dtype, external=[(other, 0, h5py.h5f.UNLIMITED)])
        case "virtual":
            layout = h5py.VirtualLayout((8, 2), "f4")
            layout[:] = h5py.VirtualSource(other, "x", (8, 2), "f4")
            file.create_virtual_dataset(name, layout)
        case "link":
            file[name] = h5py.ExternalLink(other, "/x")
        case "soft":
            file[name] = h5py.SoftLink(random.choice(("/", "/x", f"/{name}", "/nowhere")))
        case "reference":
            file.create_dataset(name, (2,), h5py.ref_dtype)
        case "filter":
            file.create_dataset(name, (8,), dtype, compression=random.choice(("gzip", "lzf")), shuffle=True)
        case _:
            file.create_dataset(name, random.choice(((8,), (8, 2), (), (0,), (2**34,))), dtype)


# ONNX

TENSORS = (
    "x",
    "x2",
    "for",
    "self",
    "torch",
    "a.b",
    "a_b",
    "a_b_2",
    "é",
    "training",
    "forward",
    "'",
    "1",
    "a b",
    "T",
)
UNARY = [
    "Relu",
    "Sigmoid",
    "Tanh",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Softplus",
    "Softmax",
    "LogSoftmax",
    "Gelu",
    "HardSwish",
]
UNARY += ["Neg", "Abs", "Identity", "Dropout", "Flatten", "Clip", "ReduceMean", "Transpose"]
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "MatMul", "Gemm", "Concat", "Gather", "QuantizeLinear"]
ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {"axis": 1},
    {"axis": 0},
    {"axis": -1},
    {"axis": 2**40},
    {"alpha": 0.5},
    {"min": -0.5, "max": 0.25},
    {"axes": [1]},
    {"axes": [7]},
    {"perm": [1, 0]},
    {"keepdims": 0},
    {"transB": 1},
    {"transA": 1},
    {"approximate": "tanh"},
    {"training_mode": 1},
    {"unknown": 3},
    {"epsilon": 0.5},
)


def _constant(random: Random, name: str) -> Any:
    shape = random.choice(((4,), (4,), (4, 4), (4, 4), (1,), (), (2, 4), (0,), (4, 1)))
    odd = random.choice((np.float64, np.int64, np.uint64, np.int8, bool, np.complex64))
    kind = odd if random.random() < 0.1 else np.float32
    proto = numpy_helper.from_array(
        (np.random.default_rng(random.randrange(99)).normal(size=shape) * 3).astype(kind), name
    )
    match random.randrange(100):
        case 0:
            proto.data_location = TensorProto.EXTERNAL
            proto.external_data.add(
                key="location", value=random.choice(("secret.bin", "../secret.bin", "pipe", ""))
            )
        case 1:
            proto.dims[:] = [random.choice((-1, 2**40, 3))] * len(proto.dims)
        case 2:
            proto.segment.begin, proto.segment.end = 0, random.choice((2, 2**40))
        case 3:
            proto.data_type = random.choice((0, 8, 17, 22, 99))
    return proto


def _node(random: Random, known: list[str], result: str, proto: Any) -> Any:
    """Return a node that is odd in one of ten cases."""
    odd = random.randrange(70)
    op = "Unknown" if odd == 0 else random.choice((*UNARY, *BINARY, "Constant"))
    if op == "Constant":
        return helper.make_node(op, [], [result], value=proto)
    fitting = [
        each
        for each in ATTRIBUTES
        if odd == 1 or (op != "Unknown" and each.keys() <= onnx.defs.get_schema(op).attributes.keys())
    ]
    chosen = random.choice(fitting) if fitting and random.random() < 0.5 else {}
    inputs = [random.choice(known[-3:]) for _ in range(1 if op in UNARY else 2)]
    inputs += [random.choice((*known, "", "missing"))] if odd in (2, 3, 4) else []
    outputs = [result, f"{result}?"] if odd == 5 else [result]
    return helper.make_node(op, inputs, outputs, domain="mine" if odd == 6 else "", **chosen)


def _check_onnx(random: Random, folder: Path) -> None:
    np.full(64, SECRET, np.float32).tofile(folder / "secret.bin")
    os.mkfifo(folder / "pipe")
    names = random.sample(TENSORS, random.randint(3, 9))
    num_constants = random.randint(0, len(names) - 2)
    known, constants, nodes = [names[0]], [], []
    for name in names[1 : 1 + num_constants]:
        constants.append(_constant(random, name))
        known.append(name)
    for name in names[1 + num_constants :]:
        nodes.append(_node(random, known, name, _constant(random, "v")))
        known.append(name)
    sizes: list[Any] = random.choice(
        (*[["batch", 4]] * 12, ["batch", 4, 4], [2, 4], [2**40, 4], [2, 2**40], [-1, 4])
    )
    kind = random.choice((TensorProto.FLOAT,) * 30 + (TensorProto.INT64, TensorProto.STRING))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(names[0], kind, sizes)],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, ["m", "n"])],
        constants,
    )
    opset = random.choice((21, 21, 21, 20, 20, 18, 13, 13, 12, 11, 9, 9, 8, 99))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        read, inputs = read_onnx(path)
    except ValueError as error:
        _check_message(str(error), path)
        return
    _compare_with_onnxruntime(path, read, inputs)


def _compare_with_onnxruntime(path: Path, model: torch.nn.Module, inputs: tuple[str, ...]) -> None:
    """Check what a model computes if onnxruntime runs it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (found,) = session.get_inputs()
        if found.type != "tensor(float)":
            return
        rows = torch.linspace(-2, 2, 2 * int(np.prod(found.shape[1:]))).reshape(2, *found.shape[1:])
        expected = session.run(None, {found.name: rows.numpy()})[0]
    except Exception:  # noqa: BLE001  # onnxruntime raises errors of its own, without a common class
        return
    with torch.no_grad():
        result = model(**{inputs[0]: rows}).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


# Labels

LABELS: tuple[str, ...] = (
    "0",
    "1",
    "2",
    "-1",
    "007",
    "1.0",
    "1e3",
    "1e300",
    "inf",
    "nan",
    "",
    "a",
    "a ",
    "é",
    "True",
)
LABELS += tuple(
    str(sign * 2**power + add) for power in (24, 31, 53, 62, 63, 64) for add in (-1, 0, 1) for sign in (1, -1)
)


def _check_labels(random: Random, folder: Path) -> None:
    chosen = random.sample(LABELS, random.randint(1, 3))
    labels = [random.choice(chosen) for _ in range(30)]
    array = np.array(labels)
    match random.choice(("csv", "arff", "npz")):
        case "csv":
            path = folder / "rows.csv"
            path.write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
        case "arff":
            path = folder / "rows.arff"
            rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
            path.write_text(f"@relation r\n@attribute x numeric\n@attribute y string\n@data\n{rows}")
        case _:
            path = folder / "rows.npz"
            for kind in random.sample((np.int64, np.uint64, np.float64, np.float32, np.complex64), 5):
                with suppress(ValueError, OverflowError):
                    array = array.astype(kind)
                    break
            np.savez(path, x=np.arange(60.0).reshape(30, 2), y=array)
            labels = [str(each) for each in array.tolist()]
    try:
        dataset = FileDataset(path)
        found = dataset.info.num_classes
    except ValueError as error:
        _check_message(str(error), path)
        return
    names = {label.strip() if path.suffix == ".arff" else label for label in labels}
    numbers = {_value_of(name) for name in names}
    is_text = None in numbers or (path.suffix == ".npz" and array.dtype.kind == "U")
    assert found == len(names if is_text else numbers), f"{found} classes for {sorted(names)}"


def _value_of(label: str) -> int | None:
    """Return the integer in a label without rounding it."""
    with suppress(ValueError):
        return int(label)
    with suppress(ValueError, OverflowError):
        return int(float(label))
    return None


KINDS: dict[str, Callable[[Random, Path], None]] = {
    "modules": _check_modules,
    "runs": _check_runs,
    "hdf5": _check_hdf5,
    "onnx": _check_onnx,
    "labels": _check_labels,
}
