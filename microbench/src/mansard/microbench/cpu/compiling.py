"""Compiling a kernel with Numba once, and finding it on disk the next time.

Numba's annotations differ from version to version, and describe an intrinsic as it is written,
not as compiled code calls it; so what we use of it has no types here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.extending

from mansard.core.hashing import file_hash

cfunc: Any = numba.cfunc
intrinsic: Any = numba.extending.intrinsic
njit: Any = numba.njit
types: Any = numba.types

# void kernel(a, b, c, n_elements, fma_per_element, repetitions)
SIGNATURE = "void(int64, int64, int64, int64, int64, int64)"
_SHARED_SOURCES = ("compiling.py", "emit.py")  # beside the folder of the kernels

_compiled: dict[tuple[str, ...], Any] = {}


def hash_source(path: str) -> str:
    """Hash of the text a kernel is compiled from: its own file and what that uses."""
    folder = Path(path).parents[1]
    files = [Path(path), *(folder / name for name in _SHARED_SOURCES)]
    return file_hash(b"\0".join(file.read_bytes() for file in files))[:16]


def compile_kernel(key: tuple[str, ...], make: Callable[[], Callable[..., None]]) -> int:
    """Address of the C function compiled from ``make()``; compiled once per ``key``.

    The function must hold the hash of its source in a closure variable: that is
    part of the key of Numba's cache, which does not look into other files itself.
    """
    if key not in _compiled:
        _compiled[key] = compile_cached(make())
    return int(_compiled[key].address)


def compile_cached(function: Callable[..., None]) -> Any:
    """Numba's C function for ``function``, kept on disk where there is a place for it."""
    return _cached(lambda cache: cfunc(SIGNATURE, nopython=True, cache=cache)(function))


def jit_cached(function: Callable[..., Any], signature: str | None = None) -> Any:
    """Numba's version of ``function`` that runs without the interpreter's lock."""
    arguments = () if signature is None else (signature,)
    return _cached(lambda cache: njit(*arguments, nogil=True, cache=cache)(function))


def _cached(compile_with: Callable[[bool], Any]) -> Any:
    """What Numba compiles, with its cache where the installation can be written.

    Raises KeyboardInterrupt where one was lost: Numba takes the machine code in a callback of LLVM,
    which drops what is raised in it, and then misses the code.
    """
    try:
        return compile_with(True)
    except RuntimeError as error:
        if "no compiled object yet" in str(error):
            raise KeyboardInterrupt from error
        if "cannot cache" not in str(error):
            raise
        return compile_with(False)  # a read-only installation
