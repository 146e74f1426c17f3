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
from mansard.microbench.kernel import source_id

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
    return source_id(file_hash(b"\0".join(file.read_bytes() for file in files))[:16])


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
    try:
        return cfunc(SIGNATURE, nopython=True, cache=True)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return cfunc(SIGNATURE, nopython=True)(function)  # a read-only installation


def jit_cached(function: Callable[..., Any], signature: str | None = None) -> Any:
    """Numba's version of ``function`` that runs without the interpreter's lock."""
    arguments = () if signature is None else (signature,)
    try:
        return njit(*arguments, nogil=True, cache=True)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return njit(*arguments, nogil=True)(function)
