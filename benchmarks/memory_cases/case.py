"""What a case of ``memory_attacks.py`` is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """A process to measure: its command line (``mansard`` alone is ours) and its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """The same command on something of usual size, and on something made to fill the memory.

    ``prepare(folder, is_attack)`` makes the input in an empty folder and returns what to run.
    ``limit_s``: after which the process counts as hung and is killed.
    """

    name: str
    prepare: Callable[[Path, bool], Run]
    limit_s: float = 300.0
