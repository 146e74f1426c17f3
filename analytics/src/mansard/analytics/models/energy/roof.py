"""The roofs of energy and power, and where time and energy tip over from traffic to work.

With the time roofline T = max(W/P, Q/B) and E = ε_f·W + ε_m·Q + π₀·T (Choi, Bedard, Fowler, Vuduc:
A roofline model of energy, IPDPS 2013), everything per FLOP depends on the intensity I = W/Q alone:

    E/W = ε_f + ε_m/I + π₀·max(1/P, 1/(I·B))           J/FLOP; its inverse is the efficiency
    E/T = (ε_f + ε_m/I) / max(1/P, 1/(I·B)) + π₀       W

Under a cap c on power the rate is at most (c − π₀) / (ε_f + ε_m/I), and a time t becomes
max(t, D / (c − π₀)) where work and traffic cost D beside the constant power (Choi, Dukhan, Liu,
Vuduc: Algorithmic time, energy, and power on candidate HPC compute building blocks, IPDPS 2014).

From E = W·ε̂·(1 + B̂(I)/I) with ε̂ = ε_f + π₀/P, the energy of a FLOP when nothing waits for memory
(docs/understand/energy.md derives it):

    B_τ = P/B                                  time balance: the ridge point
    B_ε = ε_m/ε_f                              energy balance of work and traffic alone
    η = ε_f/ε̂                                  share of ε̂ that is not constant power
    B̂(I) = η·B_ε + (1 − η)·max(0, B_τ − I)     effective energy balance

Where I = B̂(I), half of the energy goes into work and the time it takes; this balance point is the
intensity of half the best FLOP/J.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from mansard.analytics.models.energy.fit import Coefficient
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.core.records import Record


def capped_time_s(
    time_s: ArrayLike, dynamic_j: ArrayLike, constant_w: ArrayLike, limit_w: ArrayLike
) -> NDArray[np.float64]:
    """Seconds that the work takes under a limit on power; all arguments are broadcast.

    ``time_s``: without a limit; ``dynamic_j``: of work and traffic, without the constant power.
    A limit of NaN is none, and so is anything else of NaN but the time. Infinite where the
    constant power leaves nothing of the limit.
    """
    time, dynamic, constant, limit = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.float64) for each in (time_s, dynamic_j, constant_w, limit_w))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        left_w = limit - constant
        paid_s = np.where(left_w > 0, dynamic / left_w, np.where(dynamic > 0, np.inf, 0.0))
    known = ~(np.isnan(left_w) | np.isnan(dynamic))
    return np.where(known, np.maximum(time, paid_s), time)


Array = NDArray[np.float64]


class EnergyRoof(Record, frozen=True, kw_only=True):
    """One precision against one memory level in one mode: two ceilings and three costs."""

    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    flop_j: float
    byte_j: float
    constant_w: float
    cap_w: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.peak_flop_per_s > 0 and self.bandwidth_bytes_per_s > 0):
            raise ValueError("a roof needs a peak and a bandwidth above 0")
        if min(self.flop_j, self.byte_j, self.constant_w) < 0 or self.flop_j + self.constant_w == 0:
            raise ValueError("costs are not below 0, and a FLOP is not free")
        if self.cap_w is not None and self.cap_w <= self.constant_w:
            raise ValueError(f"nothing can run: {self.cap_w} W allowed, {self.constant_w} W idle")

    def rate_flop_per_s(self, intensity: ArrayLike) -> Array:
        """The roof of time, FLOP/s, at ``intensity`` in FLOP/byte, which is above 0."""
        at = np.asarray(intensity, dtype=np.float64)
        rate = np.minimum(self.peak_flop_per_s, at * self.bandwidth_bytes_per_s)
        if self.cap_w is None:
            return rate
        moved_j = self.flop_j + self.byte_j / at
        return 1 / capped_time_s(1 / rate, moved_j, self.constant_w, self.cap_w)

    def energy_per_flop_j(self, intensity: ArrayLike) -> Array:
        """J/FLOP at ``intensity`` when running at the roof of time; its inverse is FLOP/J."""
        at = np.asarray(intensity, dtype=np.float64)
        moved = self.flop_j + self.byte_j / at
        return moved + self.constant_w / self.rate_flop_per_s(at)

    def power_w(self, intensity: ArrayLike) -> Array:
        """Watts drawn at ``intensity`` when running at the roof of time."""
        at = np.asarray(intensity, dtype=np.float64)
        return self.energy_per_flop_j(at) * self.rate_flop_per_s(at)


class Span(Record, frozen=True, kw_only=True):
    """A value, and where it lies when all that it rests on is at the ends of its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


class Balance(Record, frozen=True, kw_only=True):
    """The balance points of one precision and level, FLOP/byte, and the best efficiency, FLOP/J."""

    time: Span
    energy: Span
    effective: Span
    best_flop_per_j: Span


def time_balance(roof: EnergyRoof) -> float:
    """B_τ, FLOP/byte."""
    return roof.peak_flop_per_s / roof.bandwidth_bytes_per_s


def bends(roof: EnergyRoof) -> list[float]:
    """Where the curves of energy and power bend, FLOP/byte: at the ridge, and where a cap sets in.

    A cap c allows the rate P at I = ε_m·P/(c − π₀ − ε_f·P), and I·B at ((c − π₀)/B − ε_m)/ε_f.
    """
    at = [time_balance(roof)]
    if roof.cap_w is not None:
        left_w = roof.cap_w - roof.constant_w
        above_work_w = left_w - roof.flop_j * roof.peak_flop_per_s
        at += [roof.byte_j * roof.peak_flop_per_s / above_work_w] if above_work_w > 0 else []
        above_traffic_j = left_w / roof.bandwidth_bytes_per_s - roof.byte_j
        at += [above_traffic_j / roof.flop_j] if roof.flop_j > 0 else []
    return sorted(x for x in at if x > 0)


def energy_balance(roof: EnergyRoof) -> float | None:
    """B_ε, FLOP/byte; None where work costs nothing beyond its time."""
    return roof.byte_j / roof.flop_j if roof.flop_j > 0 else None


def effective_balance(roof: EnergyRoof) -> float:
    """The I at which I = B̂(I), FLOP/byte; the cap on power is left aside.

    Right of the ridge I = ε_m/(ε_f + π₀/P). Left of it I·ε̂ = ε_m + π₀/B − I·π₀/P, hence
    I = (ε_m + π₀/B)/(ε_f + 2π₀/P).
    """
    constant_flop_j = roof.constant_w / roof.peak_flop_per_s
    right = roof.byte_j / (roof.flop_j + constant_flop_j)
    if right >= time_balance(roof):
        return right
    moved_j = roof.byte_j + roof.constant_w / roof.bandwidth_bytes_per_s
    return moved_j / (roof.flop_j + 2 * constant_flop_j)


def best_flop_per_j(roof: EnergyRoof) -> float:
    """1/ε̂: the efficiency that ever higher intensity approaches."""
    return 1 / (roof.flop_j + roof.constant_w / roof.peak_flop_per_s)


def balance(
    peak: Ceiling, bandwidth: Ceiling, flop: Coefficient, byte: Coefficient, constant: Coefficient
) -> Balance:
    """The balance points of one precision and one memory level, each null with its reason.

    Intervals are the corners': every ceiling and cost at the ends of its own at once.
    """
    terms: dict[str, Ceiling | Coefficient] = {
        "peak_flop_per_s": peak,
        "bandwidth_bytes_per_s": bandwidth,
        "flop_j": flop,
        "byte_j": byte,
        "constant_w": constant,
    }

    def span(compute: Callable[[EnergyRoof], float | None], *names: str) -> Span:
        return _span(compute, {name: terms[name] for name in names})

    return Balance(
        time=span(time_balance, "peak_flop_per_s", "bandwidth_bytes_per_s"),
        energy=span(energy_balance, "flop_j", "byte_j"),
        effective=span(effective_balance, *terms),
        best_flop_per_j=span(best_flop_per_j, "peak_flop_per_s", "flop_j", "constant_w"),
    )


# Stands in for the terms that a quantity does not depend on.
_ANY = EnergyRoof(
    peak_flop_per_s=1.0,
    bandwidth_bytes_per_s=1.0,
    flop_j=1.0,
    byte_j=1.0,
    constant_w=0.0,
    cap_w=None,
    unknown={"cap_w": "balance points are those without a cap"},
)


def _span(
    compute: Callable[[EnergyRoof], float | None], terms: dict[str, Ceiling | Coefficient]
) -> Span:
    for name, term in terms.items():
        if term.value is None:
            return _unknown(f"{_WORDS[name]}: {term.unknown['value']}", "value", "low", "high")
    value = compute(replace(_ANY, **{name: term.value for name, term in terms.items()}))
    if value is None:
        return _unknown("work costs nothing beyond its time", "value", "low", "high")
    for name, term in terms.items():
        if term.low is None or term.high is None:
            return _without_interval(value, f"{_WORDS[name]} has no interval")
        if term.low <= 0 and name not in {"byte_j", "constant_w"}:
            return _without_interval(value, f"the interval of {_WORDS[name]} reaches 0")
    corners = [value, *(c for roof in _corners(terms) if (c := compute(roof)) is not None)]
    return Span(value=value, low=min(corners), high=max(corners))


def _corners(terms: dict[str, Ceiling | Coefficient]) -> Iterator[EnergyRoof]:
    for ends in product(*[(term.low, term.high) for term in terms.values()]):
        yield replace(_ANY, **dict(zip(terms, ends, strict=True)))


def _without_interval(value: float, reason: str) -> Span:
    return Span(value=value, low=None, high=None, unknown={"low": reason, "high": reason})


_WORDS = {
    "peak_flop_per_s": "the peak",
    "bandwidth_bytes_per_s": "the bandwidth",
    "flop_j": "the energy of the work",
    "byte_j": "the energy of a byte",
    "constant_w": "the constant power",
}


def _unknown(reason: str, *names: str) -> Span:
    return Span(value=None, low=None, high=None, unknown=dict.fromkeys(names, reason))
