"""What is known about one network of the zoo."""

from __future__ import annotations

from collections.abc import Callable

from mansard.core.records import Record
from mansard.estimator.zoo.builder import Graph


class Entry(Record, frozen=True, kw_only=True):
    """One network of the zoo.

    ``dims`` are the free dimensions with the values to use where the user names
    none. ``published_macs`` is for these values, at the precision it is published
    with; ``published_parameters`` counts what training changes, so running means
    and variances are not in it.
    """

    name: str
    title: str
    task: str
    input: str
    dims: tuple[tuple[str, int], ...]
    published_macs: float | None
    published_parameters: int | None
    source: str
    draw: Callable[[], Graph]
