"""Which run of one dataset is held against which of another."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.dataset import Dataset, device_id, processor_of
from mansard.analytics.decide.compare_entries import Side
from mansard.analytics.energy.points import fit_runs
from mansard.analytics.roofs.rates import trial_rates
from mansard.analytics.roofs.roofline import rooflines
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.records import Manifest

Pair = tuple[Side, Side]


def sides_of(
    dataset: Dataset, *, name: str = "", mode: str | None = None, run_id: str | None = None
) -> tuple[Side, ...]:
    """The runs of ``dataset``, of one mode or with one id where that is asked for.

    ``name`` stands before their labels, to tell two datasets apart. Raises UsageError where
    there is no such run, InputError where there is none at all.
    """
    rates = trial_rates(dataset)
    roofs = rooflines(dataset, rates)
    energies = fit_runs(dataset, roofs)
    sides = tuple(
        Side(
            label=f"{name}{roof.label}",
            manifest=dataset.manifest(roof.run_id),
            roof=roof,
            rates=tuple(rate for rate in rates if rate.run_id == roof.run_id),
            energy=energies.get(roof.run_id),
            measurements=tuple(m for m in dataset.measurements if m.run_id == roof.run_id),
        )
        for roof in roofs
        if run_id in (None, roof.run_id) and (mode is None or _is_mode(roof.mode, mode))
    )
    if not sides:
        raise _nothing(dataset, mode, [roof.mode for roof in roofs])
    return sides


def _nothing(dataset: Dataset, mode: str | None, names: Sequence[str]) -> MansardError:
    if mode is not None and names:
        return UsageError(
            f"no run is of mode {mode!r}", fix=f"there are {', '.join(dict.fromkeys(names))}"
        )
    return InputError(
        "no run with trials is there to compare; published tables are not compared",
        where=", ".join(dataset.places),
        fix="measure first, with 'mansard bench'",
    )


def _is_mode(name: str, wanted: str) -> bool:
    return name.upper().removeprefix("MODE_") == wanted.upper().removeprefix("MODE_")


def pair_runs(
    first: Sequence[Side], second: Sequence[Side]
) -> tuple[tuple[Pair, ...], tuple[str, ...], tuple[str, ...]]:
    """Pairs of runs, and the labels of those that only one of the two has.

    One run each is a pair whatever it is of, as long as both are of a CPU or both of a GPU.
    Else runs pair by processor and mode, and by board too where a side has several boards; of
    several runs of a mode the newest counts. Raises InputError where nothing pairs.
    """
    if len(first) == len(second) == 1:
        ours, theirs = first[0], second[0]
        if processor_of(ours.manifest) == processor_of(theirs.manifest):
            return ((ours, theirs),), (), ()
    several = (
        max(len({device_id(side.manifest) for side in sides}) for sides in (first, second)) > 1
    )
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
    """The newest run of each mode; of each device too, where a side has several."""
    found: dict[tuple[str, str, str], Side] = {}
    for side in sorted(sides, key=lambda one: _age(one.manifest)):
        device = device_id(side.manifest) if by_device else ""
        found[device, processor_of(side.manifest), side.roof.mode] = side
    return found


def _age(manifest: Manifest) -> tuple[bool, str, str]:
    return (manifest.finished_utc is not None, manifest.started_utc, manifest.run_id)


def _kinds(sides: Sequence[Side]) -> str:
    return ", ".join(
        dict.fromkeys(f"{processor_of(s.manifest).upper()} in {s.roof.mode}" for s in sides)
    )
