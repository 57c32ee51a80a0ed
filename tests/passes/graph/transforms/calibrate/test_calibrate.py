"""Fraction bits and scales from data."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats.integer import Integer
from chop.passes.graph import (
    calibrate_transform_pass,
    profile_statistics_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.transforms import calibration_limits as limits
from chop.passes.graph.transforms.calibration_limits import Magnitudes, limit
from chop.statistics import Profile
from samples import annotated


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.relu(self.linear(x)) + x
        return y


def calibrated(config: dict[str, Any], batches: list[dict[str, Tensor]], **args: Any) -> tuple[Any, dict[str, Any]]:
    graph = annotated(Net(), **batches[0])
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": {"name": "integer", **config}}})
    graph, info = calibrate_transform_pass(graph, {"input_generator": batches, **args})
    return graph, info["chosen"]


def batches(scale: float = 1.0) -> list[dict[str, Tensor]]:
    return [{"x": torch.rand(8, 4) * scale} for _ in range(3)] + [{"x": torch.full((8, 4), scale)}]


@pytest.mark.parametrize(("scale", "frac_width"), [(0.9, 7), (1.5, 6), (100.0, 0), (1000.0, -3)])
def test_fraction_bits_leave_room_for_the_largest_input_of_all_batches(scale: float, frac_width: int) -> None:
    graph, chosen = calibrated({}, batches(scale))
    assert chosen["linear"]["data_in_0"]["precision"] == [8, frac_width]
    assert graph.metas()[1].args["data_in_0"].format.precision == [8, frac_width]
    assert graph.modules["linear"].formats["data_in_0"].frac_width == frac_width


def test_functions_and_weights_are_calibrated_as_well() -> None:
    graph, chosen = calibrated({}, batches(3.0))
    largest = graph.model.get_parameter("linear.weight").abs().max().item()
    assert chosen["linear"]["weight"]["limit"] == pytest.approx(largest)
    assert chosen["add"]["data_in_1"]["precision"] == [8, 5]
    add = next(node for node in graph.fx_graph.nodes if node.name == "add")
    assert add.target.formats["data_in_1"].frac_width == 5
    assert graph.model(torch.rand(2, 4)).shape == (2, 4)


def test_the_float_network_is_observed() -> None:
    # With 0 fraction bits the previous layer would only return integers.
    _, chosen = calibrated({"data_in_frac_width": 0}, [{"x": torch.full((2, 4), 0.3)}])
    assert chosen["add"]["data_in_1"]["limit"] == pytest.approx(0.3)


def test_a_free_scale_becomes_a_fixed_buffer() -> None:
    graph, chosen = calibrated({"data_in_scale": "float", "weight_scale": "float"}, batches(2.0))
    layer = graph.modules["linear"]
    assert chosen["linear"]["data_in_0"]["scale"] == pytest.approx(2 / 127)
    assert layer.get_buffer("data_in_scale").item() == pytest.approx(2 / 127)
    x = torch.tensor([[0.1, 0.2, 5.0, -5.0]])
    rounded = layer.rounded("data_in_0", x)
    assert rounded.max().item() == pytest.approx(2.0)  # saturates at the observed limit


def test_percentile_lets_outliers_saturate() -> None:
    seen = Magnitudes()
    seen.update(torch.cat([torch.rand(10_000), torch.tensor([1000.0])]))
    assert limit(seen, Integer(8, "auto"), "min_max", 0) == 1000.0
    assert limit(seen, Integer(8, "auto"), "percentile", 99.0) == pytest.approx(0.99, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mse", "entropy"])
def test_mse_and_entropy_cut_a_long_tail(method: str) -> None:
    seen, x = Magnitudes(), torch.randn(200_000)
    seen.update(torch.cat([x, torch.tensor([60.0])]))
    found = limit(seen, Integer(4, scale="float"), method, 0)  # type: ignore[arg-type]
    assert 1.5 < found < 6


def test_mse_finds_the_best_power_of_two() -> None:
    x = torch.randn(50_000)
    seen = Magnitudes()
    seen.update(x)
    chosen = Integer(4, "auto").fitted(limit(seen, Integer(4, "auto"), "mse", 0))
    errors = {f: (Integer(4, f).quantize(x) - x).square().mean().item() for f in range(-2, 6)}
    assert chosen.frac_width == min(errors, key=lambda f: errors[f])


def test_memory_does_not_grow_with_the_data() -> None:
    seen = Magnitudes()
    sizes = []
    for _ in range(6):
        seen.update(torch.randn(100_000))
        assert seen.histogram is not None
        sizes.append(seen.histogram.keys.numel())
    assert sizes[-1] < 1.2 * sizes[1] < 5_000


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"method": "mean"}, "'method' must be 'min_max' or 'percentile' or 'mse' or 'entropy', got 'mean'"),
        ({"percentile": 0.0}, "'percentile' must be above 0 and at most 100, got 0.0"),
        ({"num_batches": 0}, "'num_batches' must be at least 1, got 0"),
    ],
)
def test_mistakes_are_reported(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is checked below
        calibrated({}, batches(), **args)
    assert message in str(error.value)


@pytest.mark.slow
def test_a_rounded_result_is_calibrated() -> None:
    _, chosen = calibrated({"data_out_width": 8}, batches(100.0))
    assert chosen["linear"]["data_out_0"]["limit"] > 8


def test_operands_that_cannot_be_calibrated_are_not_listed() -> None:
    _, chosen = calibrated({"data_in_scale": "float", "data_in_granularity": "row"}, batches())
    assert chosen["add"] == {}


def test_scales_of_functions_are_fixed_and_copied() -> None:
    graph, chosen = calibrated({"data_in_scale": "float"}, batches(2.0))
    add = next(node for node in graph.fx_graph.nodes if node.name == "add")
    assert chosen["add"]["data_in_1"]["scale"] == pytest.approx(2 / 127)
    assert add.target.scale_of("data_in_1").item() == pytest.approx(2 / 127)
    x = torch.tensor([[0.1, 0.2, 5.0, -5.0]])
    copied = pickle.loads(pickle.dumps(add.target))
    for call in (add.target, copied):
        assert call(torch.zeros(1, 4), x).max().item() == pytest.approx(2.0)  # saturates


def test_no_batches_are_an_error() -> None:
    with pytest.raises(ValueError, match="input_generator yields no batches"):
        calibrate_transform_pass(annotated(Net(), x=torch.rand(2, 4)), {"input_generator": []})


CONFIG: dict[str, Any] = {"data_in_width": 6, "weight_width": 6}


def profile_of(given: list[dict[str, Tensor]], **statistics: Any) -> Profile:
    torch.manual_seed(0)
    args = {
        "target_activation_nodes": ["all"],
        "activation_statistics": statistics,
        "profile_output_activation": True,
        "input_generator": given,
        "num_samples": 32,
    }
    profile: Profile = profile_statistics_analysis_pass(annotated(Net(), **given[0]), args)[1]["profile"]
    return profile


def chosen_by(profile: Profile | str, **args: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    graph = annotated(Net(), x=torch.rand(8, 4))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": {"name": "integer", **CONFIG}}})
    _, info = calibrate_transform_pass(graph, {"profile": profile, **args})
    chosen: dict[str, Any] = info["chosen"]
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("method", ["min_max", "percentile", "mse", "entropy"])
@pytest.mark.parametrize("options", [{}, {"keep": [1]}])
def test_a_profile_gives_the_same_formats_as_batches(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    given = batches(3.0)
    torch.manual_seed(0)
    _, expected = calibrated(CONFIG, given, method=method)
    profile = profile_of(given, summary=options)
    assert chosen_by(profile, method=method) == expected
    profile.save(tmp_path / "profile")
    assert chosen_by(str(tmp_path / "profile"), method=method) == expected


@pytest.mark.slow
def test_the_range_alone_is_enough_for_min_max() -> None:
    given = batches(3.0)
    torch.manual_seed(0)
    _, expected = calibrated(CONFIG, given)
    profile = profile_of(given, range_min_max={})
    assert chosen_by(profile) == expected
    message = "'data_in_0' of node 'linear': method 'mse' needs 'summary' or 'histogram'; the profile has 'range_"
    with pytest.raises(ValueError, match=message):
        chosen_by(profile, method="mse")


@pytest.mark.slow
def test_infinities_are_left_out_of_a_profile_too() -> None:
    given = [*batches(3.0)[1:], {"x": torch.tensor([[float("inf"), 1.0, 2.0, -float("inf")]]).repeat(8, 1)}]
    chosen = chosen_by(profile_of(given, summary={}))
    assert chosen["linear"]["data_in_0"]["limit"] == 3.0
    with pytest.raises(ValueError, match="'range_min_max' without infinities"):
        chosen_by(profile_of(given, range_min_max={}))


def test_batches_or_a_profile_are_required() -> None:
    with pytest.raises(ValueError, match=r"either 'input_generator' \(batches to run\) or 'profile' is required"):
        calibrate_transform_pass(annotated(Net(), x=torch.rand(8, 4)), {})


@pytest.mark.slow
def test_with_a_profile_no_batches_are_run() -> None:
    given = batches(3.0)
    profile = profile_of(given, summary={})
    assert chosen_by(profile, input_generator=[{"no": "batch"}]) == chosen_by(profile)


def test_a_missing_statistic_in_the_profile_is_reported() -> None:
    profile = profile_of(batches(), summary={})
    profile.collections = {place: each for place, each in profile.collections.items() if place.node != "add"}
    with pytest.raises(ValueError, match="the profile has no node 'add'"):
        chosen_by(profile)


class Wider(nn.Module):
    """Nodes of the same names as in `Net`, with other shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 7)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + 1


@pytest.mark.parametrize("saved", [False, True])
def test_a_profile_of_another_model_with_the_same_names_is_refused(saved: bool, tmp_path: Path) -> None:
    profile: Profile | str = profile_of(batches(3.0), summary={})
    if saved:
        assert isinstance(profile, Profile)
        profile.save(tmp_path / "profile")
        profile = str(tmp_path / "profile")
    graph = annotated(Wider(), x=torch.rand(8, 4))
    config = {"by": "type", "linear": {"config": {"name": "integer", **CONFIG}}}
    graph, _ = quantize_transform_pass(graph, config)
    message = (
        r"the profile belongs to another model: its node 'linear' is linear, weight \[.*\], here it is .*\[7, 4\]"
    )
    with pytest.raises(ValueError, match=message):
        calibrate_transform_pass(graph, {"profile": profile})
    with pytest.raises(ValueError, match=message):
        profile_statistics_analysis_pass(annotated(Wider(), x=torch.rand(8, 4)), {"profile": profile})


def test_other_weights_than_those_of_the_profile_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    profile = profile_of(batches(3.0), summary={})
    chosen_by(profile)
    assert "are not those with which the profile was made" not in caplog.text
    torch.manual_seed(1)
    profile_statistics_analysis_pass(annotated(Net(), x=torch.rand(8, 4)), {"profile": profile})
    assert "the weights of 'linear' are not those with which the profile was made" in caplog.text


def test_magnitudes_of_large_tensors_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.cat([torch.randn(1000), torch.tensor([torch.inf, torch.nan, 0.0])])
    at_once, in_parts = Magnitudes(), Magnitudes()
    at_once.update(values)
    monkeypatch.setattr(limits, "_CHUNK_SIZE", 64)
    in_parts.update(values)
    assert in_parts.largest == at_once.largest == values[:1000].abs().max().item()
    assert in_parts.histogram is not None
    assert at_once.histogram is not None
    assert in_parts.histogram.counts.tolist() == at_once.histogram.counts.tolist()
    assert int(in_parts.histogram.counts.sum()) == 1001
