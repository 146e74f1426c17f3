"""Sizes in bytes as people write them."""

from __future__ import annotations

import re
from types import MappingProxyType

from mansard.core.errors import UsageError

_UNITS = MappingProxyType(
    {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20}
    | {"GB": 10**9, "GiB": 1 << 30}
)
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)")


def parse_bytes(text: str) -> int:
    """``512KiB`` as 524288; raises UsageError."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None:
        raise UsageError(f"{text!r} is no size in bytes", fix="write 4MiB or 512KiB")
    return round(float(found[1]) * unit)
