"""A baseline: the sides of a comparison in one file, with all their repetitions.

It is small enough to be kept in the repository of the measured code. A later comparison tests with
its repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.comparing.sides import LEAST, MOST, ComparedQuantity, Side
from mansard.core.errors import InputError, UsageError
from mansard.core.hardware import is_one_mode
from mansard.core.records import Record
from mansard.core.records.base import Schema
from mansard.core.storage.documents import read_document, readable_json, write_document
from mansard.core.storage.files import MOST_BYTES


class BaselineDocument(Record, frozen=True, kw_only=True):
    """What was measured, to compare later runs with."""

    schema: ClassVar[Schema] = Schema("baseline", 1)

    sides: tuple[Side, ...]


def write_baseline(path: Path, sides: Sequence[Side]) -> None:
    """Write ``sides`` into one file, whole or not at all; raises InputError, StorageError.

    Raises InputError too where no side has a value: nothing could ever be compared with the file.
    """
    why = why_empty(sides)
    if why:
        raise InputError(
            f"no baseline is written: {why}",
            where=str(path),
            fix="measure again while nothing else runs (--again)",
        )
    baseline = BaselineDocument(sides=tuple(sides))
    if len(readable_json(baseline)) > MOST_BYTES * 0.9:
        raise InputError(
            f"the repetitions are more than {MOST_BYTES >> 20} MiB",
            where=str(path),
            fix="keep one mode with --mode, or the folder of runs itself",
        )
    write_document(path, baseline)


def why_empty(sides: Sequence[Side]) -> str:
    """Why no side has a value to compare; empty where one has."""
    if any(side.quantities for side in sides):
        return ""
    unusable = [one for side in sides for one in side.unusable]
    unusable.sort(key=lambda one: not one.n_disturbed)  # first what another run may give
    reasons = [f"{one.name}: {one.why}" for one in unusable]
    more = f"; {len(reasons) - 1} more quantities have none" if len(reasons) > 1 else ""
    return f"nothing has a usable value ({reasons[0]}{more})" if reasons else "nothing was measured"


def read_baseline(
    path: Path, *, name: str = "", mode: str | None = None, build: str | None = None
) -> tuple[Side, ...]:
    """The sides in a file of ``write_baseline``; only those of ``mode`` or label ``build``.

    Raises SchemaError, StorageError, InputError where its numbers cannot be compared, UsageError
    where it has no such mode or label.
    """
    sides = read_document(path, BaselineDocument).sides
    for side in sides:
        for quantity in side.quantities:
            _check(quantity, path)
    if not sides:
        raise InputError("has no sides", where=str(path), fix="save the baseline again")
    chosen = [
        side
        for side in sides
        if (mode is None or is_one_mode(side.mode, mode, side.machine))
        and (build is None or build in side.builds)
    ]
    if not chosen:
        what = f"mode {mode!r}" if build is None else f"label {build!r}"
        known = (
            [side.mode for side in sides] if build is None else [b for s in sides for b in s.builds]
        )
        names = ", ".join(dict.fromkeys(map(display_name, known))) or "none"
        raise UsageError(f"{path} has no {what}", fix=f"there are {names}")
    return tuple(
        replace(side, label=f"{name}{display_name(side.label.rpartition(': ')[2])}")
        for side in chosen
    )


def _check(quantity: ComparedQuantity, path: Path) -> None:
    values = [quantity.value, *(v for run in quantity.runs for part in run.values() for v in part)]
    ends = [abs(end) for end in (quantity.low, quantity.high) if end]
    if not all(LEAST <= value <= MOST for value in values) or any(
        not LEAST**2 <= end <= MOST**3 for end in ends
    ):
        raise InputError(
            f"{display_name(quantity.name)} has a value that is not above 0, or too large",
            where=str(path),
            fix="it was changed by hand; save the baseline again",
        )
    if any(not part for run in quantity.runs for part in run.values()) or not all(quantity.runs):
        raise InputError(
            f"{display_name(quantity.name)} has a run without repetitions",
            where=str(path),
            fix="it was changed by hand; save the baseline again",
        )
