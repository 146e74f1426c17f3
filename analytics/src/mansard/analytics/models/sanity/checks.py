"""Whether what was measured and published can be true: all findings, the serious ones first.

Power modes are in an order that can be: more of everything is not much slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.names import device_labels, display_name
from mansard.analytics.data.published.doubts import hardware_limit, module_called, unit_of
from mansard.analytics.data.published.store import Published, device_names
from mansard.analytics.data.quantities import counted, digits, quantity, seconds
from mansard.analytics.data.statistics import pool_repeats
from mansard.analytics.models.predict.models import Models
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.sanity.finding import Finding
from mansard.analytics.models.sanity.runs import MOST_OVER, above, run_findings
from mansard.analytics.models.scaling.above_roofs import Claimed
from mansard.analytics.models.scaling.coefficients import counted_runs
from mansard.core.hardware import SETTINGS
from mansard.core.power_mode import nominal_w
from mansard.core.precision import rate_unit

Array = NDArray[np.float64]
Mask: TypeAlias = "NDArray[np.bool_]"
LEAST_NOTED = 1.1  # times as slow; recorded sweeps of modes scatter by less
# Recorded boards that throttle lose up to 1.3. A mode of which not all clocks are known may be
# slower by one that is not: those of one board's modes differ by up to 3.
LEAST_SERIOUS, LEAST_SERIOUS_UNKNOWN = 1.5, 3.0
_MOST_MODES = 512  # of one network, each beside each; of more an even choice
_SAME = 0.005  # clocks within it are one: tables round them
# What tells that nothing else can make the difference, where a device has it at all.
_OF_TIMES, _OF_RATES, _OF_CPUS = ("gpu_hz", "memory_hz", "cpu_hz"), ("gpu_hz", "n_sms"), ("n_cpus",)

_NETWORK = ("network", "batch", "precision", "phase")
_RATE = ("quantity", "subject", "unit")
_AGAIN = "the slower mode throttled, or one of the two is wrong: measure both again"


@dataclass(frozen=True)
class Inversion:
    """The mode ``slow``, ``ratio`` times slower than ``fast``, which has more of nothing."""

    slow: str
    fast: str
    ratio: float
    slow_s: float  # seconds, or seconds for each unit of a rate
    fast_s: float
    is_serious: bool
    is_sure: bool  # that nothing else of the two modes makes the difference
    is_named: bool  # nothing but their names tells which has more


def time_findings(modes: pl.DataFrame, observations: pl.DataFrame) -> Iterator[Finding]:
    """Networks that were measured slower in a mode that has more of everything.

    ``modes``: MODE_SCHEMA; ``observations``: OBSERVATION_SCHEMA, of one mode several rows.
    """
    pooled = pool_repeats(observations, ("device", *_NETWORK, "mode"))
    half = pl.col("latency_half").fill_null(0.0)
    times = pooled.filter(pl.col("latency_s").is_not_null()).with_columns(
        time_s=pl.col("latency_s"),
        low_s=pl.col("latency_s") * (-half).exp(),
        high_s=pl.col("latency_s") * half.exp(),
    )
    for device, pairs in _by_device(times, modes, _NETWORK, _OF_TIMES):
        for group in _by_weight(pairs):
            worst: dict[str, Inversion] = {}
            for name, inversion in group:
                worst.setdefault(name, inversion)
            words = {
                name: f"{_time_words(name, inversion)}; {_AGAIN}"
                for name, inversion in worst.items()
            }
            yield Finding(
                subject="modes",
                is_serious=group[0][1].is_serious,
                basis="times",
                device=device,
                networks=words,
                what=_time_words(*group[0]) + _and_more(group, "network"),
                fix=_AGAIN,
            )


def _time_words(network: str, inversion: Inversion) -> str:
    return (
        f"{display_name(network)} took {digits(inversion.ratio, 3)} times as long in "
        f"{display_name(inversion.slow)} as in {display_name(inversion.fast)} "
        f"({seconds(inversion.slow_s)} against {seconds(inversion.fast_s)}), {_why_odd(inversion)}"
    )


def _why_odd(inversion: Inversion) -> str:
    slow = display_name(inversion.slow)
    if inversion.is_named:
        return f"though by its name {slow} has more power"
    if inversion.is_sure:
        return f"though no clock of {slow} is lower"
    return f"though no clock of {slow} that is known is lower"


def rate_findings(modes: pl.DataFrame, coefficients: pl.DataFrame) -> Iterator[Finding]:
    """Peaks and bandwidths that are lower in a mode that has more of everything.

    ``modes``: MODE_SCHEMA; ``coefficients``: COEFFICIENT_SCHEMA, as measured or published.
    """
    is_rate = (pl.col("quantity") == "peak") | (
        (pl.col("quantity") == "bandwidth") & (pl.col("subject") == DRAM)
    )
    rates = coefficients.filter(is_rate & (pl.col("value") > 0)).with_columns(
        time_s=1 / pl.col("value"),
        low_s=1 / pl.col("high"),
        high_s=1 / pl.col("low"),
    )
    for device, pairs in _by_device(rates, modes, _RATE, _OF_RATES):
        for group in _by_weight(pairs):
            yield Finding(
                subject="modes",
                is_serious=group[0][1].is_serious,
                basis="roofs",
                device=device,
                networks={},
                what=_rate_words(*group[0]) + _and_more(group, "ceiling"),
                fix=_AGAIN,
            )


def _rate_words(subject: str, inversion: Inversion) -> str:
    is_memory = subject == DRAM
    what = f"the bandwidth of {DRAM}" if is_memory else f"the {display_name(subject)} peak"
    low, high = (
        quantity(1 / each_s, "B/s" if is_memory else rate_unit(subject), n_digits=3)
        for each_s in (inversion.slow_s, inversion.fast_s)
    )
    return (
        f"{what} is {digits(inversion.ratio, 3)} times lower in {display_name(inversion.slow)} "
        f"than in {display_name(inversion.fast)} ({low} against {high}), {_why_odd(inversion)}"
    )


def _and_more(group: Sequence[tuple[str, Inversion]], kind: str) -> str:
    """How many others are in the wrong order, beside the worst."""
    n_subjects = len({name for name, _ in group})
    n_modes = len({inversion.slow for _, inversion in group})
    if n_subjects == n_modes == 1:
        return ""
    subjects = f"{n_subjects} {kind}{'s' if n_subjects > 1 else ''}"
    return f"; the worst of {subjects} in {n_modes} mode{'s' if n_modes > 1 else ''}"


def _by_device(
    times: pl.DataFrame, modes: pl.DataFrame, key: tuple[str, ...], needed: tuple[str, ...]
) -> Iterator[tuple[str, list[tuple[str, Inversion]]]]:
    """The inversions of each device with what is inverted, the worst first."""
    known = modes.unique(["device", "mode"], keep="first", maintain_order=True)
    times = times.with_columns(pl.coalesce(name, "time_s") for name in ("low_s", "high_s"))
    for (device,), of_device in times.group_by("device", maintain_order=True):
        rows_there = known.filter(pl.col("device") == device)
        order = _Order(rows_there, needed if rows_there["gpu_hz"].is_not_null().any() else _OF_CPUS)
        places = rows_there.select("mode").with_row_index("at")
        pairs = [
            (_name(key, values), inversion)
            for values, rows in of_device.join(places, on="mode").group_by(key, maintain_order=True)
            if len(rows) > 1
            for inversion in order.inversions(rows)
        ]
        if pairs:
            yield str(device), sorted(pairs, key=lambda pair: -pair[1].ratio)


def _name(key: tuple[str, ...], values: tuple[object, ...]) -> str:
    named = dict(zip(key, values, strict=True))
    return str(named.get("network", named.get("subject")))


def _by_weight(
    pairs: Sequence[tuple[str, Inversion]],
) -> Iterator[Sequence[tuple[str, Inversion]]]:
    """The serious inversions, then the others."""
    for is_serious in (True, False):
        group = [pair for pair in pairs if pair[1].is_serious is is_serious]
        if group:
            yield group


class _Order:
    """Which of the modes of one device have more of everything than which others."""

    def __init__(self, modes: pl.DataFrame, needed: tuple[str, ...]) -> None:
        self._names = modes["mode"].to_list()
        columns = [modes[name].cast(pl.Float64).fill_null(np.nan) for name in SETTINGS]
        self._settings = np.stack([np.asarray(column) for column in columns], axis=1)
        self._needed = [SETTINGS.index(name) for name in needed]
        self._watts = np.array([nominal_w(name) for name in self._names])
        self._found: dict[bytes, tuple[Mask, Mask, Mask]] = {}

    def inversions(self, rows: pl.DataFrame) -> Iterator[Inversion]:
        """For each mode of ``rows`` that is slower than one that has more of nothing, the fastest.

        ``rows``: ``at``, the place of the mode, ``time_s``, and the ends of its interval, ``low_s``
        and ``high_s``, which must not overlap.
        """
        rows = rows.gather_every(1 + (len(rows) - 1) // _MOST_MODES)
        at, *ends = (rows[name].to_numpy() for name in ("at", "time_s", "low_s", "high_s"))
        time_s, low_s, high_s = ends
        has_more, by_name, is_sure = self._pairs(at)
        has_more = has_more | by_name
        slower = has_more & (low_s[:, None] > high_s[None, :])
        slower &= time_s[:, None] >= LEAST_NOTED * time_s[None, :]
        fastest = np.where(slower, time_s[None, :], np.inf).argmin(axis=1)
        for slow in np.flatnonzero(slower.any(axis=1)):
            fast = fastest[slow]
            ratio = float(time_s[slow] / time_s[fast])
            least = LEAST_SERIOUS if is_sure[slow, fast] else LEAST_SERIOUS_UNKNOWN
            yield Inversion(
                slow=self._names[at[slow]],
                fast=self._names[at[fast]],
                ratio=ratio,
                slow_s=float(time_s[slow]),
                fast_s=float(time_s[fast]),
                is_serious=ratio >= least,
                is_sure=bool(is_sure[slow, fast]),
                is_named=bool(by_name[slow, fast]),
            )

    def _pairs(self, at: NDArray[np.uint32]) -> tuple[Mask, Mask, Mask]:
        """Whether the first of two modes has more of everything, or by its name; and for sure."""
        key = at.tobytes()
        if key not in self._found:
            self._found[key] = self._compare(self._settings[at], self._watts[at])
        return self._found[key]

    def _compare(self, settings: Array, watts: Array) -> tuple[Mask, Mask, Mask]:
        one, other = settings[:, None, :], settings[None, :, :]
        known, unset = ~np.isnan(settings), np.isnan(settings)
        both_known = known[:, None, :] & known[None, :, :]
        neither = unset[:, None, :] & unset[None, :, :]
        with np.errstate(invalid="ignore"):
            no_less = ((one >= other * (1 - _SAME)) | neither).all(axis=2)
            has_more: Mask = no_less & np.any(one > other * (1 + _SAME), axis=2)
            by_name = neither.all(axis=2) & (watts[:, None] > watts[None, :])
        is_sure = np.asarray(both_known[:, :, self._needed].all(axis=2), dtype=np.bool_)
        return has_more, by_name, is_sure


def find_faults(models: Models) -> tuple[Finding, ...]:
    """What is wrong with the measurements of the devices of ``models``, the serious first.

    Of several runs in one mode that which counts is looked at. The thresholds are those of
    docs/understand/model.md; healthy measurements have no finding.
    """
    newest = {manifest.run_id: manifest for manifest in counted_runs(models.dataset)}
    devices = device_labels(models.dataset.all_manifests)
    devices |= {roof.run_id: roof.machine for roof in models.roofs if roof.source == "published"}
    roofs = [roof for roof in models.roofs if roof.run_id in newest or roof.source == "published"]
    faults = [
        *run_findings(roofs, devices, models.dataset.trials, newest, models.energies),
        *_published_findings(models.published),
        *rate_findings(models.modes, models.coefficients),
        *time_findings(models.modes, models.observations),
        *_claim_findings(models.claims),
    ]
    of_models = [fault for fault in faults if fault.device in models.devices]
    return tuple(sorted(of_models, key=lambda fault: not fault.is_serious))


def _claim_findings(claims: Sequence[Claimed]) -> Iterator[Finding]:
    """Networks that were faster than their arithmetic allows, of each device in one."""
    devices: dict[str, list[Claimed]] = {}
    for claimed in sorted(claims, key=lambda claimed: -claimed.claim.ratio):
        devices.setdefault(claimed.device, []).append(claimed)
    for device, rows in devices.items():
        words: dict[str, str] = {}
        for claimed in rows:
            words.setdefault(claimed.network, claimed.text)
        more = f"; the worst of {counted(len(rows), 'time')}" if len(rows) > 1 else ""
        is_any = any(claimed.claim.is_refused for claimed in rows)
        yield Finding(
            subject="limits",
            is_serious=False,  # no fit has them, so that nothing rests on them
            basis="times",
            device=device,
            networks=words,
            what=rows[0].text + more,
            fix=_CLAIM if is_any else "Winograd is the likely one, and no model leaves them out",
        )


_CLAIM = "no model uses it: name the precision that ran, or measure again with pinned clocks"


def _published_findings(published: Published) -> Iterator[Finding]:
    """Published rates that their hardware cannot reach, the worst of each device."""
    names = device_names(published)
    worst: dict[str, tuple[float, str]] = {}
    for rate in published.rates:
        limit = hardware_limit(rate, module_called(rate.device))
        if limit is None or rate.value <= MOST_OVER * limit:
            continue
        device, over = names[rate.device, rate.table_id], rate.value / limit
        if over > worst.get(device, (0.0, ""))[0]:
            words = f"{rate.mode.name}: {rate.subject} of {above(rate.value, limit, unit_of(rate))}"
            worst[device] = (over, words)
    for device, (_, words) in worst.items():
        yield Finding(
            subject="limits",
            is_serious=True,
            basis="roofs",
            device=device,
            networks={},
            what=words,
            fix="the unit of the table is wrong: import it again",
        )
