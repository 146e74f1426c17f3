"""Values of a configuration by their names; one of a wrong type or size is one clear line."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mansard.core.errors import ModelError

MAX_SIZE = 1 << 31  # no width, vocabulary or context of a model comes near
MAX_BLOCKS = 4096

_FIX = "get the file again from where the model is published"


def check_regular(path: Path) -> None:
    """Raises ModelError for a pipe or a device, which would be read for ever, and OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ModelError(f"{path.name} is not a regular file", fix="give a model's file")


class Fields:
    """``values`` of a file, whose names in messages start with ``prefix``.

    ``names``: what the file calls a value that has another name here.
    """

    def __init__(
        self, values: Mapping[str, Any], prefix: str = "", names: Mapping[str, str] | None = None
    ) -> None:
        self.values = values
        self.prefix = prefix
        self._names = names or {}

    def size(self, name: str, default: int | None = None) -> int:
        """A positive integer; raises ModelError where it is missing without a default."""
        value = self._integer(name, 1)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self._called(name)} is missing", fix=_FIX)
        return value

    def optional(self, name: str) -> int | None:
        """A positive integer, or None where the file has none (null and 0 included)."""
        return self.count(name, 0) or None

    def count(self, name: str, default: int) -> int:
        """An integer from 0, or ``default`` where the file has none."""
        value = self._integer(name, 0)
        return default if value is None else value

    def _integer(self, name: str, least: int) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.bad(name, "a positive integer" if least else "an integer from 0")
        if value > MAX_SIZE:
            raise self.bad(name, f"at most {MAX_SIZE}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(name, "true or false")
        return value

    def share(self, name: str, default: float) -> float:
        """A number above 0 and at most 1."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise self.bad(name, "a number from 0 to 1")
        return float(value)

    def text(self, name: str, default: str) -> str:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.bad(name, "a text")
        return value

    def inner(self, name: str) -> Fields | None:
        """The object inside; None where there is none."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.bad(name, "an object")
        return Fields(value, f"{self._called(name)}.")

    def list_of(self, name: str, kind: type) -> list[Any] | None:
        """A list whose items are of ``kind``; None where there is none."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(one) is kind for one in value):
            raise self.bad(name, f"a list of {kind.__name__}")
        return value

    def bad(self, name: str, wanted: str) -> ModelError:
        return ModelError(f"{self._called(name)} is not {wanted}", fix=_FIX)

    def _called(self, name: str) -> str:
        return self.prefix + self._names.get(name, name)
