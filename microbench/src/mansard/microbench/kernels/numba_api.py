"""What we use of Numba, untyped.

Its annotations differ from version to version, and describe an intrinsic as it is
written, not as compiled code calls it.
"""

from __future__ import annotations

from typing import Any

import numba
import numba.extending

cfunc: Any = numba.cfunc
intrinsic: Any = numba.extending.intrinsic
njit: Any = numba.njit
types: Any = numba.types
