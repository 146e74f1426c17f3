"""What changed between two boards, modes or runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mansard.analytics.decide.compare import Comparison, Side


class Compared(msgspec.Struct, frozen=True):
    """The comparison of each pair of runs, and the labels of those that have no partner."""

    comparisons: tuple[Comparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def compare(
    first: Path,
    second: Path,
    *,
    mode: str | None = None,
    other_mode: str | None = None,
    mix: bool = False,
) -> Compared:
    """Hold two folders of runs against each other: ceilings, costs and measured networks.

    ``first`` and ``second``: folders of runs, or single runs in them; the same one with another
    mode. ``mode``: only this mode of the first; ``other_mode``: of the second, the same by
    default. ``mix``: take runs of different versions together. Each ratio has its 95 % interval
    and a test, corrected for their number. Runs pair by processor and mode; one run on each side
    is a pair whatever its mode. Raises InputError, UsageError, StorageError.
    """
    from mansard.analytics.decide.compare import compare as compare_sides
    from mansard.analytics.decide.compare import pair_runs

    names = ("", "") if first.resolve() == second.resolve() else (f"{first}: ", f"{second}: ")
    ours = _sides(first, names[0], mode, may_mix=mix)
    theirs = _sides(second, names[1], other_mode or mode, may_mix=mix)
    pairs, only_first, only_second = pair_runs(ours, theirs)
    found = tuple(compare_sides(*pair) for pair in pairs)
    return Compared(found, tuple(only_first), tuple(only_second))


def _sides(runs: Path, name: str, mode: str | None, *, may_mix: bool) -> tuple[Side, ...]:
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.decide.compare import sides_of
    from mansard.core.documents import read_document
    from mansard.core.records import Manifest

    manifest = runs / "manifest.json"
    if not manifest.is_file():
        return sides_of(open_runs([runs], mix=may_mix), name=name, mode=mode)
    run_id = read_document(manifest, Manifest).run_id
    return sides_of(open_runs([runs.resolve().parent], mix=may_mix), name=name, run_id=run_id)
