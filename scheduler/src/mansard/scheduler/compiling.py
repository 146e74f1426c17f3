"""Functions compiled by Numba: cached on disk where possible, without the interpreter's lock.

Numba invalidates its cache by the file of a function alone, so compiled functions that call one
another are kept in one file.
"""

from __future__ import annotations

from typing import Any

import numba

# Compiled without the runtime that counts references to arrays: counting takes longer than what
# these functions do with them. So none of them makes an array.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Any) -> Any:
    """Numba's version of ``function``."""
    njit: Any = numba.njit  # its annotations lack some of its options
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return njit(**_OPTIONS)(function)  # a read-only installation


def inner(function: Any) -> Any:
    """Numba's version of a function that only compiled ones call: it takes less to compile."""
    njit: Any = numba.njit
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, **_OPTIONS)(
        function
    )
