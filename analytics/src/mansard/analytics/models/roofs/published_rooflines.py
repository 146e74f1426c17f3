"""Published rates as rooflines: each of one device and mode, by one author, never mixed."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.published.doubts import rate_doubt, unit_of
from mansard.analytics.data.published.store import NO_INTERVAL, Published, device_names, known_modes
from mansard.analytics.models.roofs.ceilings import DRAM, Ceiling, CeilingFamily, Level
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.core.errors import UsageError
from mansard.core.hardware import MODULES, Module, boards_called, near_hint, plain_device
from mansard.core.hashing import content_hash
from mansard.core.records import PublishedMode, PublishedRate, Scope

MOST_ROOFS = 48  # of one table: each is drawn with every network under it
_NO_TRIALS = "published: the trials behind it are unknown"


def published_rooflines(published: Published) -> tuple[Roofline, ...]:
    """One roofline for each table, device and mode, in the order of the tables' rows.

    Their ``run_id`` begins with "published-" and belongs to no manifest; no ceiling has an
    interval, and only the levels that the table names are there. Of a table with more than
    MOST_ROOFS modes, MOST_ROOFS have a roof, spread evenly; the coefficients have all modes.
    """
    names, known = device_names(published), known_modes(published).modes
    tables: dict[tuple[str, str], dict[str, list[PublishedRate]]] = {}
    for rate in published.rates:
        if rate_doubt(rate, known[names[rate.device, rate.table_id]][rate.mode.name]):
            continue
        modes = tables.setdefault((rate.device, rate.table_id), {})
        modes.setdefault(rate.mode.name, []).append(rate)
    return tuple(
        _roofline(rates, names[key], known[names[key]][rates[0].mode.name])
        for key, modes in tables.items()
        for rates in _spread(list(modes.values()))
    )


def _spread(modes: list[list[PublishedRate]]) -> list[list[PublishedRate]]:
    if len(modes) <= MOST_ROOFS:
        return modes
    return [modes[at * (len(modes) - 1) // (MOST_ROOFS - 1)] for at in range(MOST_ROOFS)]


def is_published(run_id: str) -> bool:
    """Whether ``run_id`` is that of a published roofline, which has no manifest."""
    return run_id.startswith("published-")


def _roofline(rates: Sequence[PublishedRate], name: str, mode: PublishedMode) -> Roofline:
    first = rates[0]
    unknown = {"n_sms": mode.unknown.get("n_sms"), "n_cpus": mode.unknown.get("n_cpus")}
    return Roofline(
        run_id=f"published-{content_hash([first.table_id, first.device, mode.name])}",
        machine_id=content_hash(["published", first.table_id, first.device]),
        machine=name,
        host=name,
        processor=first.processor,
        mode=mode.name,
        label=f"{name}, {mode.name}",
        source="published",
        n_cpus=mode.n_cpus,
        n_sms=mode.n_sms,
        clock_hz=None,
        levels=_levels(rates),
        peaks=_peaks(rates),
        bandwidths=tuple(_ceiling(r, "stream") for r in rates if r.quantity == "bandwidth"),
        kernel_comparisons=(),
        latencies=(),
        launches=(),
        unknown={
            **{field: reason for field, reason in unknown.items() if reason is not None},
            "clock_hz": "no kernel measured the clock",
        },
    )


def _peaks(rates: Sequence[PublishedRate]) -> tuple[Ceiling, ...]:
    """CUDA cores before tensor cores, narrow precisions' names first, as measured ones stand."""
    families: dict[str, CeilingFamily] = {"CUDA core": "fma", "tensor core": "tensor"}
    peaks = [_ceiling(rate, families[rate.unit]) for rate in rates if rate.quantity == "peak"]
    return tuple(sorted(peaks, key=lambda c: (c.family, len(c.subject), c.subject)))


def _levels(rates: Sequence[PublishedRate]) -> tuple[Level, ...]:
    named = {rate.subject for rate in rates if rate.quantity == "bandwidth"}
    scope: Scope = "gpu" if rates[0].processor == "gpu" else "core"
    reason = "the table does not say which working sets it used"
    return tuple(
        Level(
            name=name,
            scope=scope,
            capacity_bytes=None,
            low_bytes=0.0,
            high_bytes=None,
            unknown={"capacity_bytes": reason, "high_bytes": reason},
        )
        for name in sorted(named, key=lambda level: (level == DRAM, level))
    )


def _ceiling(rate: PublishedRate, family: CeilingFamily) -> Ceiling:
    unknown = {
        "low": NO_INTERVAL,
        "high": NO_INTERVAL,
        "sets_bytes": _NO_TRIALS,
        "stable": _NO_TRIALS,
        "backend": _NO_TRIALS,
    }
    if rate.method is None:
        unknown["kernel"] = rate.unknown["method"]
    return Ceiling(
        subject=rate.subject,
        family=family,
        kernel=rate.method,
        backend=None,
        unit=unit_of(rate),
        value=rate.value,
        low=None,
        high=None,
        n_blocks=0,
        trial_ids=(),
        sets_bytes=None,
        n_disturbed=0,
        stable=None,
        source="published",
        unknown=unknown,
    )


def find_module(name: str) -> Module:
    """The module of a part number, or the first of a family or name; raises UsageError."""
    wanted = plain_device(name)
    for part_number, module in MODULES.items():
        if wanted in map(plain_device, (part_number, module.family, module.name)):
            return module
    boards = boards_called(name)
    if boards:  # "Orin Nano Super", "thor-128gb"
        return boards[0].module
    families = list(dict.fromkeys(module.family for module in MODULES.values()))
    hint = near_hint(name, families)
    raise UsageError(f"unknown module {name!r}", fix=f"{hint}it is one of {', '.join(families)}")
