"""A second device made of CPU memory: its tensors refuse to meet those of the CPU, or of another index.

`install()` registers the device "other", with two indices. `COUNTS` counts what makes a GPU wait: copies between
devices, and values that Python reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

NAME = "other"
NUM_DEVICES = 2
COUNTS: Counter[str] = Counter()
READS = ("aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::is_nonzero", "aten::nonzero")
KEPT: list[torch.library.Library] = []
"""The registered fallback lives as long as its library."""


class OtherTensor(Tensor):
    """A tensor on the other device; `memory` is the CPU tensor that holds its values."""

    memory: Tensor

    @staticmethod
    def __new__(cls, memory: Tensor, index: int = 0, requires_grad: bool = False) -> OtherTensor:
        tensor: OtherTensor = Tensor._make_wrapper_subclass(
            cls,
            memory.size(),
            strides=memory.stride(),
            storage_offset=memory.storage_offset(),
            dtype=memory.dtype,
            layout=memory.layout,
            device=torch.device(NAME, index),
            requires_grad=requires_grad,
        )
        tensor.memory = memory
        return tensor

    def data_ptr(self) -> int:
        return self.memory.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.memory.untyped_storage()

    def new_tensor(  # type: ignore[override]
        self, data: Any, *, dtype: torch.dtype | None = None, **options: Any
    ) -> Tensor:
        return _tensor(data, dtype=dtype or self.dtype, device=self.device, **options)

    def tolist(self) -> Any:
        COUNTS["reads"] += 1
        return self.memory.tolist()

    def numpy(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() to copy it first")

    def __array__(self, *args: object, **kwargs: object) -> Any:
        self.numpy()

    def __deepcopy__(self, memo: dict[int, Any]) -> OtherTensor:
        if id(self) not in memo:
            memory = self.memory.detach().clone()
            memo[id(self)] = _restored(memory, self.device.index, self.requires_grad, _is_parameter(self))
        result: OtherTensor = memo[id(self)]
        return result

    def __reduce_ex__(self, protocol: object) -> Any:
        return _restored, (self.memory.detach(), self.device.index, self.requires_grad, _is_parameter(self))

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"OtherTensor({self.memory!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs or {})


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _restored(memory: Tensor, index: int, requires_grad: bool, is_parameter: bool) -> Any:
    tensor = OtherTensor(memory, index, requires_grad and not is_parameter)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor


def _run(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on the memory of its tensors, after checking that they are on one device."""
    name = func._schema.name
    if name == "aten::_to_copy":
        return _to_copy(func, args[0], kwargs)
    if name == "aten::copy_":
        into, source = args[:2]
        if into.device != source.device:
            COUNTS["copies"] += 1
        _memory(into).copy_(_memory(source))
        return into
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    others = {tensor.device for tensor in tensors if isinstance(tensor, OtherTensor)}
    for tensor in tensors:
        is_number = tensor.dim() == 0 and tensor.device.type == "cpu"  # it may meet tensors of any device
        if not is_number and tensor.device.type != "meta" and (others - {tensor.device}):
            raise RuntimeError(
                f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
                f"{next(iter(others))} and {tensor.device}, {list(tensor.shape)}"
            )
    if name in READS:
        COUNTS["reads"] += 1
    asked = kwargs.get("device")
    index = next(iter(others)).index if others else (torch.device(asked).index or 0 if asked is not None else 0)
    result = func(*pytree.tree_map(_memory, args), **pytree.tree_map(_memory, dict(kwargs)))
    by_memory = {id(tensor.memory): tensor for tensor in tensors if isinstance(tensor, OtherTensor)}

    def on_device(leaf: Any) -> Any:
        return by_memory.get(id(leaf), OtherTensor(leaf, index)) if isinstance(leaf, Tensor) else leaf

    return pytree.tree_map(on_device, result)


def _to_copy(func: Any, source: Tensor, kwargs: Mapping[str, Any]) -> Tensor:
    target = source.device if kwargs.get("device") is None else torch.device(kwargs["device"])
    if target.type == NAME and target.index is None:
        target = torch.device(NAME, 0)
    if target != source.device:
        COUNTS["copies"] += 1
    copied: Tensor = func(_memory(source), **{**kwargs, "device": torch.device("cpu")})
    return OtherTensor(copied, target.index) if target.type == NAME else copied


def _memory(leaf: Any) -> Any:
    if isinstance(leaf, OtherTensor):
        return leaf.memory
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count copies and reads inside the context."""
    before = Counter(COUNTS)
    counts: Counter[str] = Counter()
    yield counts
    counts.update(COUNTS - before)


class _Module(backend_registration._DummyBackendModule):
    """What `torch.other` has."""

    def device_count(self) -> int:
        return NUM_DEVICES

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: object = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        torch.set_rng_state(state)


def install() -> None:
    """Register the device, once per process."""
    if KEPT:
        return
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(_fallback, "PrivateUse1")
    factories = torch.library.Library("aten", "IMPL")
    for name in ("arange", "arange.start", "arange.start_step", "linspace", "randperm", "eye", "eye.m"):
        factories.impl(name, _factory(name), "PrivateUse1")  # those of torch write into an empty tensor
    KEPT.extend((fallback, factories))
    torch.tensor = _tensor  # type: ignore[assignment]  # torch's own switches off what this device is made of


def _fallback(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _run(func, args, kwargs)


def _factory(name: str) -> Callable[..., Tensor]:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def made(*args: Any, **kwargs: Any) -> Tensor:
        index = torch.device(kwargs["device"]).index or 0
        return OtherTensor(operator(*args, **{**kwargs, "device": torch.device("cpu")}), index)

    return made


_plain_tensor = torch.tensor


def _tensor(data: Any, *, device: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
    tensor = _plain_tensor(data, **options)
    return (tensor if device is None else tensor.to(device)).requires_grad_(requires_grad)
