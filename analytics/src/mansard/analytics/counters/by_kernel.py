"""Counters summed by the names of kernels: how often each ran, and its share of the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mansard.core.records import KernelCounters, Record, TrafficCount


class KernelSum(Record, frozen=True, kw_only=True):
    """All launches of one kernel in one call of the network.

    ``launches`` of a call may be no whole number: the calls are averaged.
    """

    kernel: str
    launches: float
    time_s: float | None
    share: float | None  # of the time of all kernels
    work_flop: float | None
    read_bytes: float | None  # from memory
    write_bytes: float | None
    traffic_bytes: float | None


def n_calls(rows: Sequence[KernelCounters]) -> int:
    """The calls of the network that ``rows`` are of: 1 where the export does not say."""
    return len({row.iteration for row in rows if row.iteration is not None}) or 1


def memory_of(row: KernelCounters) -> TrafficCount | None:
    """The traffic with memory."""
    return next((each for each in row.traffic if each.level == "memory"), None)


def by_kernel(rows: Sequence[KernelCounters]) -> tuple[KernelSum, ...]:
    """The kernels of ``rows``, of one network in one setting, by their time in a call."""
    calls = n_calls(rows)
    named: dict[str, list[KernelCounters]] = {}
    for row in rows:
        named.setdefault(row.kernel, []).append(row)
    times = {name: total((r.time_s for r in own), own) for name, own in named.items()}
    known = [each for each in times.values() if each is not None]
    whole = sum(known) if len(known) == len(times) else None
    found = [_kernel(name, own, times[name], whole, calls) for name, own in named.items()]
    return tuple(sorted(found, key=lambda each: -(each.time_s or 0)))


def total(values: Iterable[float | None], rows: Sequence[KernelCounters]) -> float | None:
    """The sum over all launches of ``rows``; None where one of them is not known."""
    products = [
        None if v is None else v * row.n_launches for v, row in zip(values, rows, strict=True)
    ]
    known = [each for each in products if each is not None]
    return sum(known) if len(known) == len(products) else None


def _kernel(
    name: str,
    rows: Sequence[KernelCounters],
    time_s: float | None,
    whole_s: float | None,
    calls: int,
) -> KernelSum:
    memory = [memory_of(row) for row in rows]
    sums: dict[str, float | None] = {
        "time_s": time_s,
        "work_flop": total((row.work_flop for row in rows), rows),
        **{
            way: total((getattr(each, way) if each else None for each in memory), rows)
            for way in ("read_bytes", "write_bytes", "traffic_bytes")
        },
    }
    values = {n: None if value is None else value / calls for n, value in sums.items()}
    values["share"] = time_s / whole_s if time_s is not None and whole_s else None
    reasons = {**_reasons(rows), "share": "not every kernel's time is known"}
    return KernelSum(
        kernel=name,
        launches=sum(row.n_launches for row in rows) / calls,
        **values,
        unknown={n: reasons.get(n, "not counted") for n, value in values.items() if value is None},
    )


def _reasons(rows: Sequence[KernelCounters]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        found |= row.unknown
        if memory := memory_of(row):
            found |= memory.unknown
    return found
