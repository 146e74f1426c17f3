"""One side of a comparison: everything that was measured of one device in one mode.

A side is a record, so that it can be kept in a file as a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mansard.analytics.decisions.comparing.kinds import Kind
from mansard.core.errors import InputError
from mansard.core.power_mode import plain_name
from mansard.core.records import Record, Source

# Values that have a ratio which a float can hold; what is measured lies far within.
LEAST, MOST = 1e-30, 1e30


class ComparedQuantity(Record, frozen=True, kw_only=True):
    """One quantity of one side, with its 95 % interval and all repetitions.

    ``runs``: of each run that measured it, by experiment, the repetitions in their order; empty
    where the value is fitted. ``alias``: equal on both sides where the quantity is the same thing
    under another name, such as a layer of the same nodes; may be empty. ``n_disturbed``: runs that
    other work or another clock disturbed, which are not among ``runs``.
    """

    kind: Kind
    name: str
    unit: str
    value: float
    low: float | None
    high: float | None
    runs: tuple[dict[str, tuple[float, ...]], ...]
    alias: str = ""
    n_disturbed: int = 0

    @property
    def n_repetitions(self) -> int:
        """Over all runs."""
        return sum(len(values) for run in self.runs for values in run.values())


class UnusableQuantity(Record, frozen=True, kw_only=True):
    """What was run on one side and has no value to compare, and why."""

    kind: Kind
    name: str
    why: str
    n_disturbed: int = 0


class Side(Record, frozen=True, kw_only=True):
    """One device in one mode: all its runs. ``facts``: what else may differ, such as versions."""

    label: str
    device: str  # the id of one processor of one machine, or of the whole
    processor: Literal["cpu", "gpu", "whole"]
    machine: str
    mode: str
    builds: tuple[str, ...]  # labels of its runs
    source: Source
    started_utc: str
    facts: dict[str, str]
    quantities: tuple[ComparedQuantity, ...]
    unusable: tuple[UnusableQuantity, ...]


Pair = tuple[Side, Side]


def pair_runs(
    first: Sequence[Side], second: Sequence[Side]
) -> tuple[tuple[Pair, ...], tuple[str, ...], tuple[str, ...]]:
    """Pairs of sides, and the labels of those that only one of the two has.

    One side each is a pair, whatever their boards and modes, if both are of a CPU, of a GPU or of
    a whole machine. Otherwise they pair by processor and mode, and by board too where there are
    several boards; of several the newest counts. Raises InputError where nothing pairs.
    """
    if len(first) == len(second) == 1 and first[0].processor == second[0].processor:
        return ((first[0], second[0]),), (), ()
    several = max(len({side.device for side in sides}) for sides in (first, second)) > 1
    mine, its = _newest(first, by_device=several), _newest(second, by_device=several)
    common = [key for key in mine if key in its]
    if not common:
        raise InputError(
            f"nothing can be compared: {_kinds(first)} on one side, {_kinds(second)} on the other",
            fix="choose one mode of each with --mode and --other-mode",
        )
    pairs = tuple((mine[key], its[key]) for key in common)
    only_first = tuple(mine[key].label for key in mine if key not in its)
    only_second = tuple(its[key].label for key in its if key not in mine)
    return pairs, only_first, only_second


def _newest(sides: Sequence[Side], *, by_device: bool) -> dict[tuple[str, str, str], Side]:
    """The newest side of each mode; of each device too, where there are several."""
    newest: dict[tuple[str, str, str], Side] = {}
    for side in sorted(sides, key=lambda one: (one.started_utc, one.label)):
        device = side.device if by_device else ""
        newest[device, side.processor, plain_name(side.mode)] = side
    return newest


def _kinds(sides: Sequence[Side]) -> str:
    names = {"cpu": "CPU", "gpu": "GPU", "whole": "whole machine"}
    return ", ".join(dict.fromkeys(f"{names[side.processor]} in {side.mode}" for side in sides))
