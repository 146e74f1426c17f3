"""Reading the user's TOML files: boards, and images of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import InputError
from mansard.core.files import read_whole

_MOST_BYTES = 1 << 20


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a file that is ``what``; raises InputError or StorageError."""
    data = read_whole(path)
    if len(data) > _MOST_BYTES:
        raise InputError(f"is too long for {what}", where=str(path))
    try:
        content: dict[str, Any] = msgspec.toml.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"is no TOML: {error}", where=str(path)) from error
    return content
