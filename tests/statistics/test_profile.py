"""Profiles: merging, saving, loading, continuing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
)
from chop.statistics import STATISTICS, Place, Profile, distribution, make_statistic
from command_server import CommandServer
from samples import Mixed, Tiny, annotated

ALL_STATISTICS: dict[str, Any] = {name: {} for name in STATISTICS}


def profiled(model: nn.Module, batches: list[Tensor], **changes: Any) -> Profile:
    graph = annotated(model, x=batches[0])
    args = {
        "target_weight_nodes": ["all"],
        "target_activation_nodes": ["all"],
        "weight_statistics": {"summary": {}},
        "activation_statistics": ALL_STATISTICS,
        "profile_output_activation": True,
        "input_generator": [{"x": batch} for batch in batches],
        "num_samples": sum(map(len, batches)),
    } | changes
    profile: Profile = profile_statistics_analysis_pass(graph, args)[1]["profile"]
    return profile


def assert_same(found: Profile, expected: Profile) -> None:
    """Check that two profiles have the same numbers; means and variances up to rounding."""
    assert found.num_samples == expected.num_samples
    results, wanted = found.results(), expected.results()
    assert results.keys() == wanted.keys()
    for place, by_name in wanted.items():
        assert results[place].keys() == by_name.keys()
        for name, result in by_name.items():
            assert results[place][name].keys() == result.keys()
            for key, value in result.items():
                mine, theirs = (
                    torch.as_tensor(each, dtype=torch.float64) for each in (results[place][name][key], value)
                )
                np.testing.assert_allclose(mine, theirs, rtol=1e-9, err_msg=f"{place} {key}")


@pytest.fixture
def batches() -> list[Tensor]:
    return [torch.randn(8, 6) for _ in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [1 << 16, 10])
def test_two_merged_runs_equal_one(batches: list[Tensor], kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "MAX_EXACT_VALUES", kept)
    model = Mixed()
    at_once = profiled(model, batches)
    first, second = profiled(model, batches[:1]), profiled(model, batches[1:])
    assert_same(profiled(model, batches[1:], profile=first), at_once)
    assert first.num_samples == 8  # the argument is not changed
    first.merge(second)
    assert_same(first, at_once)
    x = torch.cat(batches)
    found = first.results()[Place("first", "args", "data_in_0")]
    assert torch.equal(found["record"]["data"], x)
    assert found["summary"]["mean"] == pytest.approx(x.double().mean().item(), rel=1e-12)
    weight = first.results()[Place("first", "weights", "weight")]["summary"]
    assert weight["count"] == model.first.weight.numel()  # not counted twice


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"keep": [1]}, {"precise": True}])
@pytest.mark.parametrize("kept", [1 << 16, 10])
def test_a_saved_profile_is_restored(
    options: dict[str, Any], kept: int, batches: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "MAX_EXACT_VALUES", kept)
    monkeypatch.setattr(distribution, "MAX_EXACT_VALUES_PER_GROUP", 1)
    statistics = {"summary": options} if options else ALL_STATISTICS
    args: dict[str, Any] = {"by": "name", "target_activation_nodes": ["first", "relu"]}
    model = Mixed()
    profile = profiled(model, batches[:3], activation_statistics=statistics, **args)
    path = tmp_path / "new" / "profile.safetensors"
    profile.save(path)
    loaded = Profile.load(path)
    assert_same(loaded, profile)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    at_once = profiled(model, batches, activation_statistics=statistics, **args)
    more = {"activation_statistics": statistics, "profile": str(path), "save_to": str(path)}
    assert_same(profiled(model, batches[3:], **args, **more), at_once)
    assert_same(Profile.load(path), at_once)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool])
def test_values_of_every_dtype_are_kept_in_a_file(dtype: torch.dtype, tmp_path: Path) -> None:
    collection = {name: make_statistic(name, {}, "test") for name in STATISTICS}
    for statistic in collection.values():
        statistic.update(torch.tensor([[0, 1, 1]]).to(dtype))
    profile = Profile({Place("a", "args", "data_in_0"): collection, Place("b", "args", "x"): {}}, 1)
    profile.save(tmp_path / "p")
    assert_same(Profile.load(tmp_path / "p"), profile)
    untouched = Profile({Place("a", "args", "x"): {name: make_statistic(name, {}, "test") for name in STATISTICS}})
    untouched.save(tmp_path / "p")
    assert_same(Profile.load(tmp_path / "p"), untouched)


class Returns(nn.Module):
    """Returns its input, but a copy of it for small batches; it is not traced."""

    def forward(self, x: Tensor) -> Tensor:
        return x if len(x) > 4 else x + 0


def test_a_tensor_that_several_nodes_use_is_measured_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, 2))
    graph = annotated(model, input=torch.randn(8, 6))
    args = {
        "target_activation_nodes": ["all"],
        "activation_statistics": {"summary": {}},
        "profile_output_activation": True,
        "input_generator": [{"input": torch.randn(8, 6)} for _ in range(3)],
        "num_samples": 24,
    }
    profile: Profile = profile_statistics_analysis_pass(graph, args)[1]["profile"]
    profile.save(tmp_path / "p")
    for each in (profile, Profile.load(tmp_path / "p")):
        distinct = {id(collection) for collection in each.collections.values()}
        # the input, the output of the first layer before and after ReLU overwrites it, the output
        assert len(distinct) == 4
        assert len(each.collections) == 11  # five nodes have an input and an output, the placeholder only an output
    found = profile.results()
    assert found[Place("_1", "args", "data_in_0")]["summary"]["min"] < 0
    assert found[Place("_1", "results", "data_out_0")]["summary"]["min"] == 0


def test_nodes_that_share_a_tensor_only_sometimes_have_separate_statistics() -> None:
    model = nn.Sequential(Returns(), nn.ReLU(inplace=True))
    batches = [torch.randn(rows, 3) for rows in (8, 2, 8)]
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, leaf_modules=(Returns,)))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": batches[0]}})
    graph, _ = add_software_metadata_analysis_pass(graph)
    args = {
        "target_activation_nodes": ["all"],
        "activation_statistics": {"record": {}},
        "profile_output_activation": True,
        "input_generator": [{"input": batch} for batch in batches],
        "num_samples": 18,
    }
    found = profile_statistics_analysis_pass(graph, args)[1]["profile"].results()
    for place, result in found.items():
        expected = torch.cat(batches)
        is_after = place.node == "output" or (place.node == "_1" and place.kind == "results")
        assert torch.equal(result["record"]["data"], expected.relu() if is_after else expected), place


@pytest.mark.slow
def test_merging_joins_other_statistics_and_refuses_other_options(batches: list[Tensor]) -> None:
    args: dict[str, Any] = {"by": "name", "target_activation_nodes": ["first"], "target_weight_nodes": []}
    model = Mixed()
    profile = profiled(model, batches, activation_statistics={"abs_mean": {}}, **args)
    both = profiled(model, batches, activation_statistics={"summary": {}}, profile=profile, **args)
    assert set(both.find("first", "data_in_0")) == {"abs_mean", "summary"}
    with pytest.raises(ValueError, match=r"'abs_mean' of 'data_in_0' at node 'first': only .* same options"):
        profiled(model, batches, activation_statistics={"abs_mean": {"keep": [1]}}, profile=profile, **args)


@pytest.mark.slow
def test_a_profile_alone_is_noted_on_the_graph(batches: list[Tensor]) -> None:
    profile = profiled(Mixed(), batches)
    graph = annotated(Mixed(), x=batches[0])
    graph, info = profile_statistics_analysis_pass(graph, {"profile": profile})
    assert info["num_samples"] == 0
    assert_same(info["profile"], profile)
    first = next(meta for meta in graph.metas() if meta.node.name == "first").parameters["software"]
    assert first["args"]["data_in_0"]["stat"]["summary"]["count"] == 32 * 6
    assert first["args"]["weight"]["stat"]["summary"]["count"] == 24
    assert first["results"]["data_out_0"]["stat"]["summary"]["count"] == 32 * 4
    with pytest.raises(ValueError, match="the profile belongs to another model: this one has no node 'first'"):
        profile_statistics_analysis_pass(annotated(Tiny(), x=torch.randn(8, 16)), {"profile": profile})


@pytest.mark.slow
def test_find_reports_the_nearest_name(batches: list[Tensor]) -> None:
    profile = profiled(Mixed(), batches)
    assert profile.find("first", "weight")["summary"].compute()["count"] == 24
    with pytest.raises(ValueError, match="the profile has no node 'frist'; did you mean 'first'"):
        profile.find("frist", "weight")
    with pytest.raises(ValueError, match="the profile has no 'wieght' for node 'first'; did you mean 'weight'"):
        profile.find("first", "wieght")


RUN = """
import sys, torch
from chop.passes.graph import profile_statistics_analysis_pass
from samples import Tiny, annotated
torch.manual_seed(0)
graph = annotated(Tiny(), x=torch.randn(8, 16))
data = torch.randn(32, 16, generator=torch.Generator().manual_seed(1))
part = data[int(sys.argv[1]) : int(sys.argv[2])]
args = {"target_activation_nodes": ["all"], "activation_statistics": {"summary": {}, "record": {}}}
args |= {"input_generator": [{"x": part}], "num_samples": len(part), "save_to": sys.argv[3]}
profile_statistics_analysis_pass(graph, args)
"""


@pytest.mark.slow
def test_profiles_of_two_processes_merge(
    tmp_path: Path, command_server: CommandServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second part, and all of it, are profiled in this process."""
    tests = Path(__file__).parents[1]
    ranges = {"first": (0, 12), "second": (12, 32), "all": (0, 32)}
    for name, (start, end) in ranges.items():
        arguments = [str(start), str(end), str(tmp_path / name)]
        if name == "first":
            command_server.run_python(f"import sys; sys.path.insert(0, {str(tests)!r})\n{RUN}", tests, *arguments)
        else:
            monkeypatch.setattr(sys, "argv", ["-c", *arguments])
            exec(RUN, {})
    first, second, at_once = (Profile.load(tmp_path / name) for name in ranges)
    first.merge(second)
    assert_same(first, at_once)


def header_of(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with safetensors.safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return json.loads(file.metadata()["chop_profile"]), tensors


def small(path: Path) -> Path:
    """Save a profile of one tensor to a file."""
    statistic = make_statistic("summary", {"keep": [1]}, "test")
    statistic.update(torch.randn(distribution.MAX_EXACT_VALUES, 2))
    statistic.update(torch.randn(5, 2))
    Profile({Place("node", "args", "data_in_0"): {"summary": statistic}}, 5).save(path)
    return path


CHANGES: list[tuple[Any, str]] = [
    (lambda h, t: h.update(version=9), "it has version 9, but version 1 is required"),
    (lambda h, t: h.pop("version"), "is corrupt: KeyError: 'version'"),
    (lambda h, t: h.update(num_samples=-1), "-1 is not a count"),
    (lambda h, t: h["places"][0].__setitem__(3, 7), "is corrupt: IndexError"),
    (lambda h, t: h["places"][0].__setitem__(1, "arg"), "does not identify a tensor"),
    (lambda h, t: h["places"].append("node"), "cannot load profile"),
    (lambda h, t: h.update(collections=3), "is corrupt: TypeError"),
    (lambda h, t: h["collections"][0]["summary"].update(statistic="sumary"), "unknown statistic 'sumary'; did you"),
    (lambda h, t: h["collections"][0]["summary"].update(statistic=["x"]), "unknown statistic"),
    (
        lambda h, t: h["collections"][0]["summary"].update(options={"bin": 3}),
        "unknown key 'bin'; did you mean 'bins'",
    ),
    (
        lambda h, t: h["collections"][0]["summary"]["header"].update(kept_shape=[3]),
        "expected torch.int64 of shape [3]",
    ),
    (lambda h, t: h["collections"][0]["summary"]["header"].update(kept_shape=[-2]), "cannot load profile"),
    (
        lambda h, t: h["collections"][0]["summary"]["header"].update(kept_shape=[0]),
        "results cannot have shape [0]",
    ),
    (
        lambda h, t: h["collections"][0]["summary"]["header"].update(kept_shape=[-1, -2]),
        "results cannot have shape [-1, -2]",
    ),
    (lambda h, t: h["collections"][0]["summary"].update(options={}), "results cannot have shape [2]"),
    (lambda h, t: t["0/summary/nan_count"].sub_(9), "a count is negative"),
    (lambda h, t: t["0/summary/state.moments.squares"].neg_(), "a sum of squares is negative"),
    (lambda h, t: t["0/summary/state.distribution.extremes.low"].fill_(9e9), "a largest value is below the"),
    (
        lambda h, t: t["0/summary/state.distribution.extremes.high"].fill_(torch.nan),
        "a largest value is below the",
    ),
    (lambda h, t: t["0/summary/count"].add_(9), "the counts are inconsistent"),
    (lambda h, t: t["0/summary/state.moments.count"].add_(9), "the counts are inconsistent"),
    (lambda h, t: t["0/summary/state.distribution.histogram.counts"].add_(9), "counts are inconsistent"),
    (lambda h, t: t.pop("0/summary/state.moments.total"), "'state.moments.total' is missing"),
    (lambda h, t: t.pop("0/summary/count"), "is corrupt: KeyError: 'count'"),
    (
        lambda h, t: t.update({"0/summary/state.moments.total": torch.zeros(3)}),
        "expected torch.float64 of shape [2]",
    ),
    (
        lambda h, t: t.update({"0/summary/state.distribution.extremes.low": torch.zeros(2)}),
        "expected torch.float64",
    ),
    (
        lambda h, t: t["0/summary/state.distribution.histogram.keys"].neg_(),
        "a histogram has unordered or empty bins",
    ),
    (lambda h, t: t["0/summary/state.distribution.histogram.keys"].add_(1 << 40), "unordered or empty bins"),
    (lambda h, t: t["0/summary/state.distribution.histogram.counts"].zero_(), "unordered or empty bins"),
    (lambda h, t: t["0/summary/state.distribution.histogram.keys"][0].zero_(), "bins that represent no number"),
    (
        lambda h, t: t.update({"0/summary/state.distribution.parts.0": torch.zeros(2, 3, dtype=torch.int64)}),
        "expected floating-point numbers of shape [2, None]",
    ),
    (
        lambda h, t: t.update(
            {"0/summary/state.distribution.parts.5": t.pop("0/summary/state.distribution.parts.0")}
        ),
        "is corrupt: KeyError",
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_corrupt_profile_is_reported(change: Any, message: str, tmp_path: Path) -> None:
    header, tensors = header_of(small(tmp_path / "p"))
    change(header, tensors)
    safetensors.torch.save_file(tensors, tmp_path / "p", {"chop_profile": json.dumps(header)})
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is checked below
        Profile.load(tmp_path / "p")
    assert message in str(raised.value)
    assert str(tmp_path / "p") in str(raised.value)


def test_a_range_with_a_negative_count_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p"
    statistic = make_statistic("range_min_max", {}, "test")
    statistic.update(torch.randn(5))
    Profile({Place("node", "args", "data_in_0"): {"range": statistic}}, 5).save(path)
    header, tensors = header_of(path)
    tensors["0/range/count"].neg_()
    safetensors.torch.save_file(tensors, path, {"chop_profile": json.dumps(header)})
    with pytest.raises(ValueError, match="a count is negative"):
        Profile.load(path)


def test_a_file_that_is_not_a_profile_is_reported(tmp_path: Path) -> None:
    path = small(tmp_path / "p")
    content = path.read_bytes()
    for corrupt in (b"", b"junk", content[:100], content[:-8], content[:20] + b"\xff" * 40 + content[60:]):
        path.write_bytes(corrupt)
        with pytest.raises(ValueError, match=r"cannot load profile .* it is corrupt"):
            Profile.load(path)
    safetensors.torch.save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="it is not a profile"):
        Profile.load(path)
    for text in ("[1]", "{", "[" * 100_000):
        safetensors.torch.save_file({"x": torch.zeros(2)}, path, {"chop_profile": text})
        with pytest.raises(ValueError, match=f"{path.name}"):
            Profile.load(path)
    with pytest.raises(ValueError, match="the file does not exist"):
        Profile.load(tmp_path / "none")
    with pytest.raises(ValueError, match="the file does not exist"):
        Profile.load(tmp_path)
