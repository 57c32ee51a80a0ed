"""Compiled loops: from Python source by Numba to machine code, which is kept on disk and loaded by llvmlite.

Loading does not import Numba. A loop is compiled once per version of its source, of Numba and
of the processor. Where the cache folder cannot be written, nothing is compiled.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from chop.cache import cache_folder
from chop.files import write_bytes

logger = logging.getLogger(__name__)

Loop = Callable[[int, int, int, int, int, int, Any], object]
"""Arguments: addresses of source and target; outer, n, inner and size; float32 parameters."""
_SOURCES = Path(__file__).parent / "loops"
_DIGEST = 32


@cache
def load_loop(name: str, *choices: str) -> Loop | None:
    """Return the loop `name` of a file in `loops/` for these choices; None if it cannot be compiled here."""
    if not is_available():
        return None
    path = cache_folder("kernels") / f"{name}-{'-'.join(choices).replace('/', '-')}-{_key()}.o"
    code = _read(path)
    if code is None and (code := _compile(name, choices)) is not None:
        try:
            write_bytes(path, hashlib.sha256(code).digest() + code)
        except OSError as error:
            logger.debug("compiled loop %s is not kept: %s", path.name, error)
    return None if code is None else _as_function(code)


@cache
def is_available() -> bool:
    """Whether loops can be loaded or compiled, and CHOP_KERNELS is not 0."""
    return os.environ.get("CHOP_KERNELS") != "0" and importlib.util.find_spec("llvmlite") is not None


def _compile(name: str, choices: tuple[str, ...]) -> bytes | None:
    """Return the machine code of a loop."""
    if importlib.util.find_spec("numba") is None or not _is_writable(cache_folder("kernels")):
        return None
    from numba import njit, types

    pointer: Any = types.CPointer
    # Blocks are too short for loops that are unrolled four times on top of being vectorised. Unrolling them before
    # would leave nothing to vectorise: full unrolling stops at four vectors.
    for option in ("-force-vector-interleave=1", "-unroll-full-max-count=4"):
        _llvm().set_option("", option)
    numbers = pointer(types.float32)
    signature = types.void(numbers, numbers, types.int64, types.int64, types.int64, types.int64, numbers)
    modules = (
        importlib.import_module(f"chop.formats.kernels.loops.{path.stem}") for path in _SOURCES.glob("[a-z]*.py")
    )
    function = next(getattr(module, name) for module in modules if hasattr(module, name))(*choices)
    options: dict[str, Any] = {
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "error_model": "numpy",
        "boundscheck": False,
    }
    compile_it: Any = njit(signature, **options)
    (compiled,) = compile_it(function).overloads.values()
    code, missing = _machine_code(compiled.library.get_llvm_str(), compiled.fndesc.llvm_func_name)
    if missing:
        logger.warning("%s is slow on this processor: its compiled loop needs %s", name, ", ".join(missing))
    return None if missing else code


def _machine_code(assembly: str, function: str) -> tuple[bytes, list[str]]:
    """Return the code of a function, and the functions that it calls but does not contain."""
    llvm = _llvm()
    module = llvm.parse_assembly(assembly)
    module.get_function(function).name = "loop"
    _remove_unused(module)
    missing = [each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")]
    return _target_machine().emit_object(module), missing


def _remove_unused(module: Any) -> None:
    """Remove what the loop does not call: parts of Numba's runtime, which is not there when the code is loaded."""
    llvm = _llvm()
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name != "loop":
            each.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(_target_machine(), llvm.create_pipeline_tuning_options()))


_engines: list[Any] = []
"""They own the memory of the loaded code."""
_unused = ctypes.create_string_buffer(64)


def _as_function(code: bytes) -> Loop:
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address, size = ctypes.c_void_p, ctypes.c_int64
    # The first two arguments are where Numba's functions store results and exceptions; these loops have neither.
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[address] * 4, *[size] * 4, address)(
        engine.get_function_address("loop")
    )
    unused = ctypes.addressof(_unused)
    return partial(function, unused, unused)  # takes less time than a function in Python


@cache
def _llvm() -> Any:
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


def _target_machine() -> Any:
    llvm = _llvm()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def _read(path: Path) -> bytes | None:
    """Return the machine code in a file; None if there is none, or if it is corrupt."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


@cache
def _key() -> str:
    """Return a key of all that the machine code depends on."""
    llvm = _llvm()
    parts = [path.read_bytes() for path in (Path(__file__), *sorted(_SOURCES.glob("*.py")))]
    parts += [f"{name} {_version(name)}".encode() for name in ("numba", "llvmlite")]
    parts += [llvm.get_host_cpu_name().encode(), llvm.get_host_cpu_features().flatten().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _is_writable(folder: Path) -> bool:
    """Whether files can be created in a folder, which is created if needed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
