"""Compares two runs quantity by quantity, and says which differences are more than scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from mansard.analytics.data.names import shown
from mansard.analytics.decide.compare_entries import Entry, Side, entries_of
from mansard.analytics.decide.compare_records import Change, Comparison, Test
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.significance import (
    LEVEL,
    Stratum,
    holm,
    interval_test,
    rank_test,
    ratio_span,
)
from mansard.core.records import Manifest


def compare(first: Side, second: Side) -> Comparison:
    """Every quantity that both sides have, and the names of those that only one has.

    Ceilings of each kernel, fitted costs, and measured networks. Quantities of other
    precisions, levels, kernels or batch sizes are never held against each other.
    """
    ours, theirs = entries_of(first), entries_of(second)
    changes = [_change(name, ours[name], theirs[name]) for name in ours if name in theirs]
    return Comparison(
        first=first.label,
        second=second.label,
        changes=tuple(_corrected(changes)),
        only_first=tuple(name for name in ours if name not in theirs),
        only_second=tuple(name for name in theirs if name not in ours),
        differences=_differences(first.manifest, second.manifest),
    )


def _change(name: str, ours: Entry, theirs: Entry) -> Change:
    ratio, low, high = ratio_span(ours.span, theirs.span)
    p, test, why_not = _test(ours, theirs)
    ends: dict[str, float | None] = {
        "first_low": ours.span[1],
        "first_high": ours.span[2],
        "second_low": theirs.span[1],
        "second_high": theirs.span[2],
        "ratio_low": low,
        "ratio_high": high,
    }
    unknown = {key: "a side has no interval" for key, end in ends.items() if end is None}
    if p is None:
        unknown |= {"p": why_not, "test": why_not}
    return Change(
        kind=ours.kind,
        quantity=name,
        unit=ours.unit,
        first=ours.span[0],
        second=theirs.span[0],
        ratio=ratio,
        test=test,
        p=p,
        p_corrected=None,
        is_significant=None,
        unknown=unknown | dict.fromkeys(("p_corrected", "is_significant"), why_not),
        **ends,
    )


def _test(ours: Entry, theirs: Entry) -> tuple[float | None, Test | None, str]:
    """p, the test that gave it, and why there is none."""
    if ours.blocks and theirs.blocks:
        p = rank_test(_strata(ours.blocks, theirs.blocks))
        return p, None if p is None else "ranks of blocks", "too few blocks to tell"
    p = interval_test(ours.span, theirs.span)
    return p, None if p is None else "intervals", "a side has no interval"


def _strata(ours: Mapping[object, Array], theirs: Mapping[object, Array]) -> list[Stratum]:
    """Blocks of the same trial on both sides; all blocks as one where no trial is the same."""
    common = [key for key in ours if key in theirs]
    if common:
        return [(ours[key], theirs[key]) for key in common]
    return [(np.concatenate(list(ours.values())), np.concatenate(list(theirs.values())))]


def _corrected(changes: Sequence[Change]) -> list[Change]:
    tested = [change for change in changes if change.p is not None]
    corrected = iter(holm([change.p for change in tested if change.p is not None]))
    found = []
    for change in changes:
        if change.p is None:
            found.append(change)
            continue
        p = next(corrected)
        unknown = {
            name: why
            for name, why in change.unknown.items()
            if name not in {"p_corrected", "is_significant"}
        }
        found.append(
            msgspec.structs.replace(
                change, p_corrected=p, is_significant=p < LEVEL, unknown=unknown
            )
        )
    return found


def _differences(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """What else is not the same, in words; what one does not know is left out."""
    pairs: dict[str, tuple[object, object]] = {
        "machine": (first.machine.name, second.machine.name),
        "mode": (first.mode_read_back.name, second.mode_read_back.name),
        "profile": (first.profile, second.profile),
        "Mansard": (first.tool_version, second.tool_version),
        "kernel": (first.machine.kernel_release, second.machine.kernel_release),
        "driver": (first.machine.driver, second.machine.driver),
        "image": (first.image, second.image),
    }
    names = first.versions.keys() & second.versions.keys()
    pairs |= {name: (first.versions[name], second.versions[name]) for name in sorted(names)}
    return tuple(
        f"{name}: {shown(str(mine))} and {shown(str(its))}"
        for name, (mine, its) in pairs.items()
        if mine != its and mine is not None and its is not None
    )
