"""What sections of the report are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first column of each row is its header."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Missing:
    """Stands where a chart would be: why there is none, and what would bring it."""

    reason: str
