"""Compares two runs quantity by quantity, and says which differences are more than scatter.

Compared are ceilings, costs and measured networks. Runs of two datasets are paired first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from mansard.analytics.data.dataset import Dataset, device_id, processor_of
from mansard.analytics.data.names import display_name, engine_name
from mansard.analytics.decisions.significance import (
    FEWEST_STRETCHES,
    LEVEL,
    THRESHOLD,
    Centre,
    Span,
    Stratum,
    find_centre,
    find_shift,
    holm,
    interval_test,
    ratio_span,
    shift_test,
)
from mansard.analytics.decisions.values import Array
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit, fit_runs
from mansard.analytics.models.roofs.rates import TrialRate, trial_rates
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.analytics.models.scaling.coefficients import newest_runs
from mansard.analytics.models.scaling.observations import counted_measurements
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.hardware import is_one_mode
from mansard.core.power_mode import plain_name
from mansard.core.precision import work_unit
from mansard.core.records import Manifest, Measurement, Record

Kind = Literal["peak", "bandwidth", "energy", "network"]
Test = Literal["blocks", "intervals"]


class Change(Record, frozen=True, kw_only=True):
    """One quantity on both sides: second over first, with its 95 % interval.

    ``p``: of no difference above the comparison's threshold, by ``test``; ``p_corrected`` for all
    quantities that were tested. ``is_significant``: that is below 0.05. ``is_equal``: the interval
    of the ratio lies within the threshold.
    """

    kind: Kind
    quantity: str
    unit: str
    first: float
    first_low: float | None
    first_high: float | None
    second: float
    second_low: float | None
    second_high: float | None
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    test: Test | None
    p: float | None
    p_corrected: float | None
    is_significant: bool | None
    is_equal: bool | None


class Comparison(Record, frozen=True, kw_only=True):
    """Two runs side by side. ``differences``: what else is not the same, such as a version.

    ``threshold``: the share by which a quantity may differ without mattering.
    """

    first: str
    second: str
    threshold: float
    changes: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Side:
    """One run with all that was found of it, and what it is called."""

    label: str
    manifest: Manifest
    roof: Roofline
    rates: tuple[TrialRate, ...]
    energy: EnergyFit | None
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, eq=False)
class ComparedQuantity:
    """One quantity of one side. ``blocks``: what was seen of each trial; empty if fitted."""

    kind: Kind
    unit: str
    span: Span
    blocks: Mapping[object, Array]


def entries_of(side: Side) -> dict[str, ComparedQuantity]:
    """Everything that ``side`` has, by its name in words."""
    return {**_ceilings(side), **_costs(side.energy), **_networks(side.measurements)}


def _ceilings(side: Side) -> dict[str, ComparedQuantity]:
    by_id = {rate.trial_id: rate for rate in side.rates}
    quantities = {}
    for ceiling in (*side.roof.peaks, *side.roof.bandwidths):
        if ceiling.value is None:
            continue
        rates = [by_id[trial_id] for trial_id in ceiling.trial_ids if trial_id in by_id]
        is_peak = ceiling.family != "stream"
        name = f"{ceiling.name} peak" if is_peak else f"{ceiling.subject} {ceiling.kernel}"
        quantities[name] = ComparedQuantity(
            "peak" if is_peak else "bandwidth",
            ceiling.unit,
            (ceiling.value, ceiling.low, ceiling.high),
            {_trial_key(rate): rate.blocks for rate in rates},
        )
    return quantities


def _trial_key(rate: TrialRate) -> object:
    """What makes two trials the same experiment."""
    return (rate.kernel, rate.backend, rate.fma_per_element, rate.working_set_bytes)


def _costs(energy: EnergyFit | None) -> dict[str, ComparedQuantity]:
    if energy is None:
        return {}
    kinds: list[tuple[str, str, Coefficient]] = [
        *(
            (f"energy of {name} work", f"J/{work_unit(name)}", cost)
            for name, cost in energy.flop_j.items()
        ),
        *((f"energy of {name} traffic", "J/B", cost) for name, cost in energy.byte_j.items()),
        ("constant power", "W", energy.constant_w),
    ]
    return {
        name: ComparedQuantity("energy", unit, (cost.value, cost.low, cost.high), {})
        for name, unit, cost in kinds
        if cost.value is not None and cost.value > 0
    }


def _networks(measurements: Sequence[Measurement]) -> dict[str, ComparedQuantity]:
    quantities = {}
    for row in measurements:
        seconds = np.asarray(row.seconds_s, dtype=np.float64)
        if not len(seconds) or not (seconds > 0).all():
            continue
        centre = find_centre(seconds)
        value = float(np.median(seconds)) if centre is None else math.exp(centre.log)
        span: Span = (value, None, None)
        if centre is not None and len(seconds) >= FEWEST_STRETCHES:
            span = (value, value * math.exp(-centre.half), value * math.exp(centre.half))
        model = display_name(row.model)
        name = f"{model} {row.phase}, batch {row.batch}, {row.precision}, {engine_name(row)}"
        quantities[name] = ComparedQuantity("network", "s", span, {"": seconds})
    return quantities


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
    timed = _timed_beside(dataset)
    sides = tuple(
        Side(
            label=f"{name}{roof.label}",
            manifest=dataset.manifest(roof.run_id),
            roof=roof,
            rates=tuple(rate for rate in rates if rate.run_id == roof.run_id),
            energy=energies.get(roof.run_id),
            measurements=tuple(timed.get(roof.run_id, ())),
        )
        for roof in roofs
        if run_id in (None, roof.run_id)
        and (mode is None or is_one_mode(roof.mode, mode, roof.machine))
    )
    if not sides:
        raise _nothing(dataset, mode, [roof.mode for roof in roofs])
    return sides


def _timed_beside(dataset: Dataset) -> dict[str, list[Measurement]]:
    """Measurements of networks by the id of the run of kernels on the same device and in the same
    mode.

    If there are several such runs, the newest usable one has them.
    """
    counted = {_where(run): run.run_id for run in newest_runs(dataset.manifests)}
    places = {run.run_id: _where(run) for run in dataset.workload_manifests}
    timed: dict[str, list[Measurement]] = {}
    for row in counted_measurements(dataset):
        run_id = counted.get(places[row.run_id])
        if run_id is not None:
            timed.setdefault(run_id, []).append(row)
    return timed


def _where(run: Manifest) -> tuple[str, str]:
    return device_id(run), plain_name(run.mode_read_back.name)


def _nothing(dataset: Dataset, mode: str | None, names: Sequence[str]) -> MansardError:
    if mode is not None and names:
        return UsageError(
            f"no run is of mode {mode!r}", fix=f"there are {', '.join(dict.fromkeys(names))}"
        )
    return InputError(
        "no run with trials is there to compare; published tables are not compared",
        where=", ".join(dataset.locations),
        fix="measure first, with 'mansard bench'",
    )


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
    newest: dict[tuple[str, str, str], Side] = {}
    for side in sorted(sides, key=lambda one: _age(one.manifest)):
        device = device_id(side.manifest) if by_device else ""
        newest[device, processor_of(side.manifest), plain_name(side.roof.mode)] = side
    return newest


def _age(manifest: Manifest) -> tuple[bool, str, str]:
    return (manifest.finished_utc is not None, manifest.started_utc, manifest.run_id)


def _kinds(sides: Sequence[Side]) -> str:
    return ", ".join(
        dict.fromkeys(f"{processor_of(s.manifest).upper()} in {s.roof.mode}" for s in sides)
    )


def compare(first: Side, second: Side, threshold: float = THRESHOLD) -> Comparison:
    """Every quantity that both sides have, and the names of those that only one has.

    ``threshold``: the share that a quantity has to differ by; 0.01 is 1 %. Raises UsageError where
    it is not between 0 and 1.

    Ceilings of each kernel, fitted costs, and measured networks. Quantities of other
    precisions, levels, kernels or batch sizes are never held against each other.
    """
    if not 0 <= threshold < 1:
        raise UsageError(f"a threshold of {threshold:g} is no share", fix="say 0.01 for 1 %")
    ours, theirs = entries_of(first), entries_of(second)
    changes = [
        _change(name, ours[name], theirs[name], threshold) for name in ours if name in theirs
    ]
    return Comparison(
        first=first.label,
        second=second.label,
        threshold=threshold,
        changes=tuple(_corrected(changes)),
        only_first=tuple(name for name in ours if name not in theirs),
        only_second=tuple(name for name in theirs if name not in ours),
        differences=_differences(first.manifest, second.manifest),
    )


def _change(
    name: str, ours: ComparedQuantity, theirs: ComparedQuantity, threshold: float
) -> Change:
    shift: Centre | None = None
    if ours.blocks and theirs.blocks:
        shift, why_not = find_shift(_strata(ours.blocks, theirs.blocks)), "too few blocks to tell"
        p = None if shift is None else shift_test(shift, threshold)
    else:
        p, why_not = interval_test(ours.span, theirs.span, threshold), "a side has no interval"
    ratio, low, high = ratio_span(ours.span, theirs.span)
    if shift is not None:
        low, high = ratio * math.exp(-shift.half), ratio * math.exp(shift.half)
    ends: dict[str, float | None] = {
        "first_low": ours.span[1],
        "first_high": ours.span[2],
        "second_low": theirs.span[1],
        "second_high": theirs.span[2],
        "ratio_low": low,
        "ratio_high": high,
    }
    is_equal = None
    if low is not None and high is not None:
        is_equal = 1 / (1 + threshold) <= low and high <= 1 + threshold
    unknown = {key: "a side has no interval" for key, end in ends.items() if end is None}
    unknown |= {} if is_equal is not None else {"is_equal": "a side has no interval"}
    if p is None:
        unknown |= {"p": why_not, "test": why_not}
    return Change(
        kind=ours.kind,
        quantity=name,
        unit=ours.unit,
        first=ours.span[0],
        second=theirs.span[0],
        ratio=ratio,
        test=None if p is None else "intervals" if shift is None else "blocks",
        p=p,
        p_corrected=None,
        is_significant=None,
        is_equal=is_equal,
        unknown=unknown | dict.fromkeys(("p_corrected", "is_significant"), why_not),
        **ends,
    )


def _strata(ours: Mapping[object, Array], theirs: Mapping[object, Array]) -> list[Stratum]:
    """Blocks of the same trial on both sides; all blocks as one where no trial is the same."""
    common = [key for key in ours if key in theirs]
    if common:
        return [(ours[key], theirs[key]) for key in common]
    return [(np.concatenate(list(ours.values())), np.concatenate(list(theirs.values())))]


def _corrected(changes: Sequence[Change]) -> list[Change]:
    tested = [change for change in changes if change.p is not None]
    corrected = iter(holm([change.p for change in tested if change.p is not None]))
    results = []
    for change in changes:
        if change.p is None:
            results.append(change)
            continue
        p = next(corrected)
        unknown = {
            name: why
            for name, why in change.unknown.items()
            if name not in {"p_corrected", "is_significant"}
        }
        results.append(
            msgspec.structs.replace(
                change, p_corrected=p, is_significant=p < LEVEL, unknown=unknown
            )
        )
    return results


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
        f"{name}: {display_name(str(mine))} and {display_name(str(its))}"
        for name, (mine, its) in pairs.items()
        if mine != its and mine is not None and its is not None
    )
