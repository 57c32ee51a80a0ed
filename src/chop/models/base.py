"""The registry of models, and building a model for a data set."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from chop.display.launcher import option_name
from chop.registry import Registry, closest
from chop.task_names import check_task

ModelMaker = Callable[..., nn.Module]
M = TypeVar("M", bound=ModelMaker)


class DataInfo(Protocol):
    """What a model needs to know about a data set; `chop.dataset.DatasetInfo` implements it."""

    @property
    def num_features(self) -> int: ...
    @property
    def num_classes(self) -> int: ...
    @property
    def feature_shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Normalization:
    """The normalisation of images that a model expects, per channel: `(pixels / 255 - mean) / std`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class ModelInfo:
    """The description of a model before it is built."""

    name: str
    make: ModelMaker  # a class or function that takes the data set's info, or nothing
    inputs: tuple[str, ...]  # the arguments of `forward` that take the tensors of a batch
    tasks: tuple[str, ...]
    summary: str  # first line of the docstring
    sample_dims: int | None  # dimensions of one sample: 1 for a row of features, 3 for an image; None: not checked
    normalization: Normalization | None = None  # of images; None: by the statistics of the training split
    tokenizer: Callable[[], Any] | None = None  # returns the tokenizer of a model that takes text
    class_names: tuple[str, ...] = ()  # if the weights were trained for these classes
    has_weights: bool = False  # whether the model is built with trained weights
    random_weights: Callable[[], tuple[str, ...]] = tuple  # weights of the built model that are random
    cf_args: Mapping[str, object] = field(default_factory=dict)  # arguments of `forward` with a fixed value

    @property
    def options(self) -> dict[str, object]:
        """The arguments besides `info`, with their defaults; for example the widths of layers."""
        plain = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in plain if p.default is not p.empty and p.name != "info"}

    @property
    def data_options(self) -> dict[str, object]:
        """Options of data sets that the model suggests: the normalisation of images, and its classes."""
        options: dict[str, object] = {} if self.normalization is None else asdict(self.normalization)
        return options | ({"class_names": self.class_names} if self.class_names else {})

    def with_arguments(self, cf_args: Mapping[str, object]) -> ModelInfo:
        """Return the same model with arguments of its `forward` fixed to these values."""
        inputs = tuple(name for name in self.inputs if name not in cf_args)
        if not inputs:
            raise ValueError(f"cf_args of model '{self.name}' leave no argument for the rows of the data set")
        return replace(self, inputs=inputs, cf_args=dict(cf_args))

    def arguments(self, features: Tensor) -> dict[str, Tensor]:
        """Return the arguments of `forward` for rows; several inputs are slices along their second dimension."""
        if len(self.inputs) == 1:
            return {self.inputs[0]: features}
        if features.dim() < 2 or features.shape[1] != len(self.inputs):
            raise ValueError(
                f"model '{self.name}' takes {', '.join(self.inputs)}, but the data set gives one tensor of shape "
                f"{list(features.shape)} per batch; fix the others with {option_name('cf_args')} NAME=VALUE"
            )
        return dict(zip(self.inputs, features.unbind(dim=1), strict=True))

    def build(self, dataset_info: DataInfo | None, options: Mapping[str, object] | None = None) -> nn.Module:
        """Return the model for a data set, with these `options`; untrained unless it has weights of its own."""
        given = dict(options or {})
        for name in given:
            if name not in self.options:
                known = closest(name, self.options) if self.options else "it has none"
                raise ValueError(f"model '{self.name}' has no option '{name}'; {known}")
        info = inspect.signature(self.make).parameters.get("info")
        is_optional = info is not None and info.default is not info.empty
        if not _takes_info(self.name, self.make) or (dataset_info is None and is_optional):
            return self._with_named_inputs(self.make(**given))
        if dataset_info is None:
            raise ValueError(f"model '{self.name}' needs dataset_info, for example data_module.dataset_info")
        if self.sample_dims not in (None, len(dataset_info.feature_shape)):
            raise ValueError(
                f"model '{self.name}' takes samples with {self.sample_dims} dimension(s), "
                f"but samples of the data set have the shape {tuple(dataset_info.feature_shape)}"
            )
        return self._with_named_inputs(self.make(dataset_info, **given))

    def _with_named_inputs(self, model: nn.Module) -> nn.Module:
        """Return the model with the values of `cf_args` as defaults, which every call and every capture uses."""
        if not isinstance(model, nn.Module):
            raise ValueError(f"model '{self.name}' returned {type(model).__name__}, not an nn.Module")
        if type(model) is nn.Sequential and self.inputs == ("x",):
            model = _NamedSequential(OrderedDict(model.named_children()))
        parameters = inspect.signature(model.forward).parameters
        known = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for name in self.inputs:
            if name not in known and not takes_any:
                raise ValueError(
                    f"model '{self.name}' is registered with the input '{name}', but its forward takes "
                    f"{', '.join(known) or 'no named argument'}: pass inputs= to register_model"
                )
        for name in self.cf_args:
            if name not in parameters and not takes_any:
                nearest = closest(name, parameters)
                raise ValueError(f"cf_args: the forward of model '{self.name}' has no argument '{name}'; {nearest}")
        if self.cf_args:
            vars(model)["forward"] = partial(model.forward, **self.cf_args)
        return model


class _NamedSequential(nn.Sequential):
    """An nn.Sequential whose input is called `x`, as in most models; the names of parameters are the same."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x


class LayerSequence(nn.Module):
    """A sequence of layers; nodes of the traced graph are called `seq_blocks_0`, `seq_blocks_1`, ..."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.seq_blocks = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.seq_blocks(x)
        return scores


MODELS: Registry[ModelInfo] = Registry("model")


def describe_model(
    name: str,
    make: ModelMaker,
    inputs: tuple[str, ...] | None = None,
    tasks: tuple[str, ...] = ("cls",),
    sample_dims: int | None = None,
    normalization: Normalization | None = None,
) -> ModelInfo:
    """Return the description of a model; the default of `inputs` is read from the `forward` of a class."""
    _takes_info(name, make)
    lines = inspect.cleandoc(make.__doc__ or "").splitlines()  # not getdoc: it inherits that of nn.Module
    return ModelInfo(
        name=name,
        make=make,
        inputs=tuple(inputs) if inputs is not None else _required_inputs(name, make),
        tasks=tuple(check_task(task) for task in tasks),
        summary=lines[0] if lines else "",
        sample_dims=sample_dims,
        normalization=normalization,
    )


def register_model(
    name: str,
    inputs: tuple[str, ...] | None = None,
    tasks: tuple[str, ...] = ("cls",),
    sample_dims: int | None = None,
    normalization: Normalization | None = None,
) -> Callable[[M], M]:
    """Register a model class, or a function that returns a model, under `name`."""
    return MODELS.register(name, lambda make: describe_model(name, make, inputs, tasks, sample_dims, normalization))


def _takes_info(name: str, make: ModelMaker) -> bool:
    """Whether the class or function takes the data set's info, its only argument without a default."""
    parameters = inspect.signature(make).parameters.values()
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = [p.name for p in plain if p.default is p.empty]
    if len(required) > 1 or any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in plain):
        raise ValueError(
            f"model '{name}' must take `info` (by position) or nothing; it requires {', '.join(required)}"
        )
    return bool(required) or (bool(plain) and plain[0].name == "info")


def _required_inputs(name: str, make: ModelMaker) -> tuple[str, ...]:
    """Return the arguments of `forward` without a default; for a function that returns a model, `x`."""
    if not (isinstance(make, type) and issubclass(make, nn.Module)):
        return ("x",)
    parameters = list(inspect.signature(make.forward).parameters.values())[1:]
    names = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if not names:
        raise ValueError(f"the forward of model '{name}' has no named argument: pass inputs=('x',), for example")
    return tuple(names)
