"""Compiled functions: kept on disk where there is a place for them, free of the interpreter's lock.

Numba looks at the file of a function alone to see whether what it kept is still true. So compiled
functions that call one another stand in one file.
"""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Numba's version of ``function``."""
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return numba.njit(nogil=True, error_model="numpy")(function)  # a read-only installation


def inner(function: Any) -> Any:
    """Numba's version of a function that only compiled ones call: it takes less to compile."""
    njit: Any = numba.njit  # its annotations lack two of its options
    return njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
