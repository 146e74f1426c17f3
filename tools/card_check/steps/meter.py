"""The energy meter itself: the pace of its counter, and how well one kernel's energy repeats."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, median, stdev
from typing import Any

import msgspec

from mansard.core.errors import MansardError
from mansard.device.meters.meter import Meters
from mansard.device.meters.readings import find_steps
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.sampling import calibrate
from mansard.microbench.cuda import trial_specs as trials
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.kernel import find_kernel, gpu_case
from tools.card_check.energy import N_CHANGED, joules_of
from tools.card_check.opening import Card
from tools.card_check.words import words_of

N_WINDOWS = 8
_PACE_S, _POLL_S = 2.0, 0.001
_WINDOW_S = 1.0


def check_meter(card: Card) -> dict[str, Any]:
    """The pace of each rail, and the spread of repeated windows, or why there is none."""
    if not card.meters.found:
        missing = "; ".join(f"{name}: {why}" for name, why in card.meters.missing.items())
        return {"why": f"no meter: {missing}"}
    return {"pace": counter_pace(card.meters), **repeat_windows(card)}


def counter_pace(meters: Meters) -> dict[str, dict[str, float | None]]:
    """By rail the median time between two values of its energy and its power; None: no two."""
    readings: dict[tuple[str, str], list[tuple[float, float]]] = {}
    end_s = meters.clock.now_s() + _PACE_S
    while meters.clock.now_s() < end_s:
        for sample in (sample for meter in meters.found for sample in meter.read()):
            for name in ("energy_j", "power_w"):
                value = getattr(sample, name)
                if value is not None:
                    readings.setdefault((sample.rail, name), []).append((sample.monotonic_s, value))
        meters.clock.sleep(_POLL_S)
    pace: dict[str, dict[str, float | None]] = {}
    for (rail, name), points in readings.items():
        times_s = [step.by_s for step in find_steps(points)[1:]]
        gaps_s = [after - before for before, after in pairwise(times_s)]
        pace.setdefault(rail, {})[name] = median(gaps_s) if gaps_s else None
    return pace


def repeat_windows(card: Card) -> dict[str, Any]:
    """The coefficient of variation of one kernel's energy: the longest chain of FMA, in L2."""
    protocol = msgspec.structs.replace(
        PROTOCOLS["quick"],
        n_energy_windows=N_WINDOWS,
        energy_window_s=_WINDOW_S,
        n_changed_min=N_CHANGED,
    )
    chain = trials.chain_set(card.gpu)
    case = gpu_case("fma", "fp32", chain.n_bytes, fma_per_element=1024)
    kernel, opened = find_kernel("fma", "cupy"), card.opened
    try:
        with CudaSource(kernel, case, card.gpu, opened.runtime, opened.clock) as source:
            repetitions = calibrate(source, protocol.sample_s, lambda: False)
            metering = EnergyMetering(card.meters, protocol, lambda _sample: None)
            metered = metering.run(source, repetitions, lambda: False)
    except MansardError as error:
        return {"why": words_of(error)}
    joules = [
        energy_j / window.repetitions
        for window in metered.windows or ()
        if (energy_j := joules_of(window)) is not None and window.repetitions
    ]
    if len(joules) < N_WINDOWS // 2:
        return {"why": metered.reason or f"{len(joules)} of {N_WINDOWS} windows have an energy"}
    return {"n_windows": len(joules), "variation": stdev(joules) / mean(joules)}
