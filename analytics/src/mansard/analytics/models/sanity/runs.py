"""Whether a run can be true, by its samples, the trials of its ceilings, and their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import counted, percent, quantity
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit
from mansard.analytics.models.roofs.ceilings import DRAM, Ceiling
from mansard.analytics.models.roofs.gpu_kernels import cpu_memory_limit
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, describe
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.sanity.finding import Basis, Finding, Subject
from mansard.core.records import ABOVE_LIMIT, Manifest

MOST_LOST = 0.5  # of the samples or trials of a run
MOST_HALF = 0.25  # of the interval of a ceiling that times rest on, of its value
LEAST_STEP = 1.05  # by which one level is slower than the next; less is measured differently
MOST_OVER = 1.25  # above a limit of the hardware; less is a miscount that changes little
MOST_MISFIT = 0.3  # median error of an energy fit on its own points
MOST_NAMED = 4  # modes in one sentence

_AGAIN = "measure again with nothing else running"
_SLOWER = "one of them is wrong: measure this mode again"
_MISCOUNT = "the clock or the unit is wrong: measure again"
_REPORT = "a count or a clock of this run is wrong: report this with the run's folder"
_METER = "look at what else drew power, and measure again"

# What is wrong with one run or published mode: nothing, or words for it.
_Check = Callable[[Roofline], "str | None"]


def run_findings(
    roofs: Sequence[Roofline],
    devices: Mapping[str, str],
    trials: pl.DataFrame,
    manifests: Mapping[str, Manifest],
    energies: Mapping[str, EnergyFit],
) -> Iterator[Finding]:
    """Findings of each of ``roofs`` alone, the same of several modes in one.

    ``devices``: the device's label by run id; ``trials``: TRIAL_SCHEMA; ``manifests`` and
    ``energies`` by run id.
    """
    lost, refused = _lost_samples(trials), _refused_results(trials)
    checks: tuple[tuple[Subject, bool, Basis, str, _Check], ...] = (
        ("samples", True, "roofs", _AGAIN, lambda roof: lost.get(roof.run_id)),
        ("ceilings", True, "roofs", _AGAIN, _rough),
        ("ceilings", False, "roofs", _AGAIN, _unsettled),
        ("levels", True, "roofs", _SLOWER, _wrong_levels),
        ("limits", True, "roofs", _MISCOUNT, lambda roof: _above_limit(roof, manifests)),
        ("limits", True, "roofs", _REPORT, lambda roof: refused.get(roof.run_id)),
        ("kernels", False, "roofs", "the others make the roof", _left_out),
        ("energy", True, "energy", _METER, lambda roof: _misfit(energies.get(roof.run_id))),
    )
    for subject, is_serious, basis, fix, check in checks:
        said: dict[str, dict[str, str]] = {}
        for roof in roofs:
            if (what := check(roof)) is not None:
                said.setdefault(devices[roof.run_id], {})[display_name(roof.mode)] = what
        for device, modes in said.items():
            yield Finding(
                subject=subject,
                is_serious=is_serious,
                basis=basis,
                device=device,
                networks={},
                what=_of_modes(modes),
                fix=fix,
            )


def _of_modes(modes: Mapping[str, str]) -> str:
    """What is wrong in each mode; of many modes the first few."""
    parts = [f"in {mode}, {what}" for mode, what in list(modes.items())[:MOST_NAMED]]
    more = len(modes) - len(parts)
    return "; ".join(parts) + (f"; and {counted(more, 'more mode')}" if more > 0 else "")


def _lost_samples(trials: pl.DataFrame) -> dict[str, str]:
    """Runs that lost most of their samples or trials, by run id; what failed had none to lose."""
    measured = trials.filter(pl.col("failure").is_null())
    rows = measured.group_by("run_id", maintain_order=True).agg(
        pl.col("n_accepted", "n_rejected").sum(),
        n_trials=pl.len(),
        n_disturbed=(pl.col("disturbances").list.len() > 0).sum(),
    )
    losses = {}
    for row in rows.iter_rows(named=True):
        n_samples = row["n_accepted"] + row["n_rejected"]
        if row["n_rejected"] > MOST_LOST * n_samples:
            share = percent(row["n_rejected"] / n_samples)
            losses[row["run_id"]] = f"{share} of the samples were rejected"
        elif row["n_disturbed"] > MOST_LOST * row["n_trials"]:
            n_trials = f"{row['n_disturbed']} of {row['n_trials']} trials"
            losses[row["run_id"]] = f"{n_trials} were disturbed"
    return losses


def _refused_results(trials: pl.DataFrame) -> dict[str, str]:
    """Runs with a kernel whose result was above its limit when it was measured, by run id."""
    refused = trials.filter(pl.col("failure").str.starts_with(ABOVE_LIMIT)).sort(TRIAL_ORDER)
    kernels_by_run: dict[str, list[str]] = {}
    for row in refused.iter_rows(named=True):
        kernels_by_run.setdefault(row["run_id"], []).append(describe(row))
    return {
        run_id: f"{_list(kernels[:MOST_NAMED])} ran faster than the hardware can"
        + (f", and {len(kernels) - MOST_NAMED} more" if len(kernels) > MOST_NAMED else "")
        for run_id, kernels in kernels_by_run.items()
    }


def _priced(roof: Roofline) -> dict[str, Ceiling]:
    """The ceilings that times rest on, by name, as far as they were measured here."""
    ceilings = (*roof.peaks, roof.traffic_bandwidth(DRAM))
    return {
        ceiling.name: ceiling
        for ceiling in ceilings
        if ceiling.value and ceiling.source != "published"
    }


def _rough(roof: Roofline) -> str | None:
    """Ceilings that are known only roughly: the worst, and which others."""
    ceilings = _priced(roof)
    rough = [name for name, ceiling in ceilings.items() if _roughness(ceiling) > MOST_HALF]
    if not rough:
        return None
    worst = max(rough, key=lambda name: _roughness(ceilings[name]))
    others = [name for name in rough if name != worst]
    verb = "is" if len(others) == 1 else "are"
    more = f", and {_list(others)} {verb} no better" if others else ""
    return _why_rough(ceilings[worst]) + more


def _unsettled(roof: Roofline) -> str | None:
    """Ceilings of which no trial settled, though their blocks agree."""
    names = [
        name
        for name, ceiling in _priced(roof).items()
        if ceiling.stable is False and _roughness(ceiling) <= MOST_HALF
    ]
    return f"no trial of {_list(names)} settled" if names else None


def _roughness(ceiling: Ceiling) -> float:
    """The half width of the interval over the value; infinite where nothing tells."""
    if not ceiling.value or not ceiling.low or ceiling.high is None:
        return math.inf
    return max(ceiling.high - ceiling.value, ceiling.value - ceiling.low) / ceiling.value


def _why_rough(ceiling: Ceiling) -> str:
    if ceiling.low is None:
        blocks = "1 block" if ceiling.n_blocks == 1 else f"{ceiling.n_blocks} blocks"
        return f"{_named(ceiling)} rests on {blocks} of samples"
    ends = f"{_rate(ceiling, ceiling.low)} and {_rate(ceiling, ceiling.high)}"
    return f"{_named(ceiling)} is anywhere between {ends}"


def _wrong_levels(roof: Roofline) -> str | None:
    """Of two levels the farther one is faster, by its reads or by its roof.

    Not of a simulated board: its levels have the made-up board's sizes, and its kernels run in
    the caches of this machine.
    """
    if roof.source == "simulated":
        return None
    for near, far in combinations([level.name for level in roof.levels], 2):
        for pick in (roof.traffic_bandwidth, roof.bandwidth):
            one, other = pick(near), pick(far)
            if one.value is None or other.value is None:
                continue
            is_noise = (one.high or one.value) >= (other.low or other.value)
            if not is_noise and other.value > LEAST_STEP * one.value:
                return f"{near} ({_by_kernel(one)}) is slower than {far} ({_by_kernel(other)})"
    return None


def _above_limit(roof: Roofline, manifests: Mapping[str, Manifest]) -> str | None:
    """A rate that the hardware cannot reach."""
    limits = [(comparison.ceiling, comparison.limit) for comparison in roof.kernel_comparisons]
    # Kernels of a made-up board run on this machine's CPU, whose memory is another.
    if roof.processor == "cpu" and roof.source == "measured":
        limits.append((roof.bandwidth(DRAM), cpu_memory_limit(manifests[roof.run_id])))
    for ceiling, limit in limits:
        if limit is not None and ceiling.value is not None and ceiling.value > MOST_OVER * limit:
            return f"{_named(ceiling)} of {above(ceiling.value, limit, ceiling.unit)}"
    return None


def above(value: float, limit: float, unit: str) -> str:
    """How far a rate is above what the hardware can do."""
    rate, most = (quantity(rate, unit, n_digits=3) for rate in (value, limit))
    return f"{rate} is above the {most} that the hardware can do"


def _left_out(roof: Roofline) -> str | None:
    """Kernels that do not make the roof though they were fastest."""
    reasons = [
        f"{level.name} at {_by_kernel(ceiling)} makes no roof: it {why}"
        for level in roof.levels
        for ceiling, why in roof.left_out(level.name)
    ]
    return " and ".join(reasons) if reasons else None


def _misfit(fit: EnergyFit | None) -> str | None:
    """An energy fit that its own points contradict, or that has farther bytes cost less."""
    if fit is None:
        return None
    misfit = median(map(abs, fit.residuals)) if fit.residuals else 0.0
    if misfit > MOST_MISFIT:
        return f"the energy fit is {percent(misfit)} off its own points in the median"
    levels = [(name, cost) for name, cost in fit.byte_j.items() if cost.value is not None]
    for (near, one), (far, other) in combinations(sorted(levels, key=_distance), 2):
        if (one.low or 0.0) > (other.high or 0.0) > 0:
            return f"a byte from {near} costs more than one from {far}"
    return None


def _distance(level: tuple[str, Coefficient]) -> tuple[bool, str]:
    """L1, L2, L3, DRAM."""
    return (level[0] == DRAM, level[0])


def _by_kernel(ceiling: Ceiling) -> str:
    return _rate(ceiling) + (f" by {display_name(ceiling.kernel)}" if ceiling.kernel else "")


def _list(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _named(ceiling: Ceiling) -> str:
    is_peak = ceiling.family != "stream"
    return f"the {ceiling.name} peak" if is_peak else f"the bandwidth of {ceiling.name}"


def _rate(ceiling: Ceiling, value: float | None = None) -> str:
    return quantity(ceiling.value if value is None else value, ceiling.unit, n_digits=3)
