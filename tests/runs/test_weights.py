"""Weights from files: valid, wrong, corrupt and malicious ones."""

from __future__ import annotations

import copy
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from chop.dataset import get_dataset_info
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    save_mase_graph_interface_pass,
)
from chop.runs import RunFolder
from chop.runs.weights import share_equal_weights
from chop.tools import load_model

State = dict[str, Tensor]


def tagger(name: str = "jsc-tiny") -> nn.Module:
    return get_model(name, task="cls", dataset_info=get_dataset_info("jsc"))


def save_pt(path: Path, model: nn.Module) -> Path:
    torch.save(model.state_dict(), path)
    return path


def save_pl(path: Path, model: nn.Module) -> Path:
    """Save a checkpoint as Lightning's Trainer does."""
    state = OrderedDict((f"model.{key}", value) for key, value in model.state_dict().items())
    content = {"epoch": 3, "global_step": 70, "state_dict": state, "optimizer_states": [{"state": {}}]}
    torch.save({**content, "loops": None, "hyper_parameters": {"learning_rate": 1e-4}}, path)
    return path


def save_data_parallel(path: Path, model: nn.Module) -> Path:
    """Save a checkpoint as training scripts do that use DataParallel."""
    state = nn.DataParallel(model).state_dict()
    torch.save({"state_dict": state, "best_prec1": 92.78}, path)
    return path


def save_unprefixed(path: Path, model: nn.Module) -> Path:
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, path)
    return path


def save_safetensors(path: Path, model: nn.Module) -> Path:
    path = path.with_suffix(".safetensors")
    safetensors.torch.save_file(model.state_dict(), path)
    return path


def snapshot(model: nn.Module) -> State:
    return {key: value.clone() for key, value in model.state_dict().items()}


def same(first: State, second: State) -> bool:
    return list(first) == list(second) and all(first[key].equal(second[key]) for key in first)


def refuse(path: Path, load_type: str = "auto", name: str = "jsc-tiny") -> str:
    """Return the error message; the model must be unchanged."""
    model = tagger(name)
    before = snapshot(model)
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the callers check the text
        load_model(load_name=str(path), load_type=load_type, model=model)
    assert same(model.state_dict(), before)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("save", "load_type"),
    [
        (save_pt, "pt"),
        (save_pl, "pl"),
        (save_pt, "auto"),
        (save_pl, "auto"),
        (save_data_parallel, "auto"),
        (save_unprefixed, "auto"),
        (save_safetensors, "auto"),
    ],
)
def test_weights_are_loaded_as_saved(
    tmp_path: Path, save: Callable[[Path, nn.Module], Path], load_type: str
) -> None:
    trained, model = tagger(), tagger()
    trained(torch.randn(32, 16))  # moves the running statistics
    loaded = load_model(load_name=str(save(tmp_path / "best.ckpt", trained)), load_type=load_type, model=model)
    assert loaded is model
    assert same(model.state_dict(), trained.state_dict())


def test_tied_weights_may_be_stored_once(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    saved, model = tied(), tied()
    state = {key: value for key, value in saved.state_dict().items() if key != "1.weight"}
    safetensors.torch.save_file(state, tmp_path / "tied.safetensors")
    load_model(tmp_path / "tied.safetensors", model=model)
    assert same(model.state_dict(), saved.state_dict())


def test_a_corrupt_safetensors_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bad.safetensors").write_bytes(b"hello there")
    assert "is corrupt" in refuse(tmp_path / "bad.safetensors")


def test_a_path_object_is_accepted(tmp_path: Path) -> None:
    load_model(save_pt(tmp_path / "w.pt", tagger()), model=tagger())


def test_keys_of_the_training_module_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save_pl(tmp_path / "best.ckpt", tagger())
    content = torch.load(path, weights_only=True)
    content["state_dict"]["loss.weight"] = torch.ones(5)
    torch.save(content, path)
    load_model(path, "pl", tagger())
    assert caplog.messages == [f"checkpoint '{path}': ignored keys that do not belong to the model: loss.weight"]


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    assert refuse(tmp_path / "none.ckpt").endswith("does not exist")


def test_an_unknown_load_type_names_the_allowed_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown load_type 'hdf'; allowed: auto, pt, pl, mz"):
        load_model(save_pt(tmp_path / "w.pt", tagger()), load_type="hdf", model=tagger())


def test_weights_need_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds only weights: pass the model"):
        load_model(save_pt(tmp_path / "w.pt", tagger()))


def test_the_wrong_load_type_is_reported(tmp_path: Path) -> None:
    weights, checkpoint = save_pt(tmp_path / "w.pt", tagger()), save_pl(tmp_path / "best.ckpt", tagger())
    assert "has no 'state_dict'; use load_type 'pt' or 'auto'" in refuse(weights, "pl")
    assert "under 'state_dict'; use load_type 'pl' or 'auto'" in refuse(checkpoint, "pt")
    assert "is a file, but load_type 'mz' needs a folder" in refuse(weights, "mz")
    assert "is a folder, but load_type 'pt' needs a file" in refuse(tmp_path, "pt")


@pytest.mark.parametrize("save", [save_pt, save_pl])
def test_weights_of_another_model_name_the_keys(tmp_path: Path, save: Callable[[Path, nn.Module], Path]) -> None:
    message = refuse(save(tmp_path / "toy.ckpt", tagger("jsc-toy")))
    assert "does not fit this JSCTiny" in message
    assert "unexpected: seq_blocks.3.weight, seq_blocks.3.bias, seq_blocks.3.running_mean" in message
    assert "and 15 more" in message  # 26 entries there, 7 here, 4 shown
    assert "different shapes: seq_blocks.2.weight [8, 16] for [5, 16], seq_blocks.2.bias [8] for [5]" in message
    assert "missing: seq_blocks.3.weight" in refuse(save(tmp_path / "tiny.ckpt", tagger()), name="jsc-toy")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([torch.ones(2)], "holds list, not a dict of weights"),
        ({}, "is not a dict of weights: it holds nothing"),
        ({"epoch": 3, "loss": 0.5}, "is not a dict of weights: it holds epoch, loss"),
        ({3: torch.ones(2)}, "is not a dict of weights: it holds 3"),
        ({"state_dict": {"seq.weight": torch.ones(2)}}, "unexpected: seq.weight"),
        ({"state_dict": {}}, "is not a dict of weights: it holds nothing"),
    ],
)
def test_a_file_without_a_state_dict_is_reported(tmp_path: Path, content: object, reason: str) -> None:
    torch.save(content, tmp_path / "odd.pt")
    assert reason in refuse(tmp_path / "odd.pt")


@pytest.mark.parametrize("content", [b"", b"hello there", b"\x80\x04junk", bytes(range(256)) * 20, b"PK\x03\x04"])
def test_a_file_that_is_not_a_checkpoint_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.ckpt").write_bytes(content)
    assert "is corrupt, or does not hold tensors and plain values" in refuse(tmp_path / "bad.ckpt")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_reported(tmp_path: Path, share: float) -> None:
    path = save_pl(tmp_path / "best.ckpt", tagger())
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "is corrupt, or does not hold tensors and plain values" in refuse(path)


def test_a_changed_weight_is_reported(tmp_path: Path) -> None:
    model = tagger()
    path = save_pt(tmp_path / "w.pt", model)
    weight = model.state_dict()["seq_blocks.2.weight"].numpy().tobytes()
    path.write_bytes(path.read_bytes().replace(weight, bytes([weight[0] ^ 1]) + weight[1:]))
    assert "is corrupt: the checksum of its record" in refuse(path)


class Malicious:
    """An object that creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self.mark}'",)


def test_code_in_a_checkpoint_does_not_run(tmp_path: Path) -> None:
    mark, path = tmp_path / "it_ran", tmp_path / "evil.ckpt"
    torch.save({"state_dict": {"model.seq_blocks.0.weight": Malicious(mark)}}, path)
    assert "is refused: it holds 'posix.system'" in refuse(path)
    assert not mark.exists()
    torch.load(path, weights_only=False)  # a loader that trusts the file runs the code
    assert mark.exists()


@pytest.mark.parametrize(("protocol", "reason"), [(2, "it holds 'posix.system'"), (4, "does not hold tensors")])
def test_code_in_a_plain_pickle_does_not_run(tmp_path: Path, protocol: int, reason: str) -> None:
    mark, path = tmp_path / "it_ran", tmp_path / "evil.ckpt"
    path.write_bytes(pickle.dumps({"seq_blocks.0.weight": Malicious(mark)}, protocol))
    assert reason in refuse(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()


def test_a_pickled_model_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    torch.save(tagger(), tmp_path / "model.pt")
    message = refuse(tmp_path / "model.pt")
    assert "is refused: it holds 'chop.models.jet_substructure.JSCTiny'" in message
    assert "save model.state_dict() instead" in message


@pytest.mark.parametrize("load_type", ["mz", "auto"])
def test_a_saved_graph_is_loaded_with_its_model(tmp_path: Path, load_type: str) -> None:
    x = torch.randn(8, 16)
    graph, _ = init_metadata_analysis_pass(MaseGraph(tagger().eval()), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    save_mase_graph_interface_pass(graph, str(tmp_path / "saved"))
    loaded = load_model(load_name=str(tmp_path / "saved"), load_type=load_type)
    assert loaded.eval()(x).equal(graph.model.eval()(x))


def test_a_pipe_in_place_of_a_checkpoint_is_reported(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.touch()
    folder.checkpoints.mkdir(parents=True)
    os.mkfifo(folder.best_checkpoint)
    with pytest.raises(ValueError, match=r"best.ckpt' is a pipe or a device, not a file"):
        load_model(folder.path, model=nn.Linear(2, 2))


def test_only_equal_weights_use_the_same_memory() -> None:
    ours = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2), "c": nn.Linear(2, 2)})
    theirs = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2), "c": nn.Linear(2, 4)})
    theirs["a"].load_state_dict(ours["a"].state_dict())
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    share_equal_weights(ours, theirs)
    known = dict(theirs.named_parameters())
    shared = [name for name, weight in ours.named_parameters() if weight.data_ptr() == known[name].data_ptr()]
    assert shared == ["a.weight", "a.bias"]
    assert all(torch.equal(weight, before[name]) for name, weight in ours.state_dict().items())


def test_tied_weights_stay_tied() -> None:
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    ours = nn.Sequential(first, second)
    theirs = copy.deepcopy(ours)
    share_equal_weights(ours, theirs)
    assert second.weight is first.weight
    assert [weight.data_ptr() for weight in theirs.parameters()] == [first.weight.data_ptr()]
