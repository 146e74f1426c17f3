"""Counters summed by kernel name: how often each ran, and its share of the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from mansard.core.records import KernelCounters, Record, TrafficCount, WorkCount

_WAYS = ("read_bytes", "write_bytes", "traffic_bytes")


class KernelSum(Record, frozen=True, kw_only=True):
    """All launches of one kernel in one call of the network.

    ``launches`` of a call may be no whole number: the calls are averaged.
    """

    kernel: str
    launches: float
    time_s: float | None
    share: float | None  # of the time of all kernels
    work_flop: float | None
    least_flop: float  # of the units that were counted
    pagoda_flop: float | None  # by the rule of Pagoda's ert_method.py
    precisions: tuple[str, ...]  # of that work
    read_bytes: float | None  # from memory
    write_bytes: float | None
    traffic_bytes: float | None


class CallSum(Record, frozen=True, kw_only=True):
    """All kernels of one call of the network.

    ``work``: of each unit and precision; ``traffic``: of each level, as far as all launches have
    it. ``clocks_hz``: means over the time.
    """

    calls: int  # that were counted
    launches: float
    time_s: float | None
    clocks_hz: dict[str, float]
    work: tuple[WorkCount, ...]
    work_flop: float | None
    pagoda_flop: float | None
    traffic: tuple[TrafficCount, ...]


def call_sum(rows: Sequence[KernelCounters], calls: int | None = None) -> CallSum:
    """The sums of ``rows``, of one network in one setting, for a call.

    ``calls``: that the rows are of; None: as their iterations say.
    """
    calls = calls or n_calls(rows)
    sums = {
        "time_s": total((row.time_s for row in rows), rows),
        "work_flop": total((row.work_flop for row in rows), rows),
        "pagoda_flop": total((row.pagoda_flop for row in rows), rows),
    }
    values = {name: None if value is None else value / calls for name, value in sums.items()}
    reasons = {name: why for row in rows for name, why in row.unknown.items()}
    return CallSum(
        calls=calls,
        launches=sum(row.n_launches for row in rows) / calls,
        clocks_hz=_mean_clocks_hz(rows),
        work=_work(rows, calls),
        traffic=tuple(_traffic(rows, calls)),
        **values,
        unknown={n: reasons.get(n, "not counted") for n, value in values.items() if value is None},
    )


def _work(rows: Sequence[KernelCounters], calls: int) -> tuple[WorkCount, ...]:
    counts: dict[tuple[str, str], list[WorkCount]] = {}
    for row in rows:
        for work in row.work:
            scaled = replace(work, flop=work.flop * row.n_launches / calls)
            counts.setdefault((work.unit, work.precision), []).append(scaled)
    summed = (
        replace(
            same[0],
            flop=sum(work.flop for work in same),
            error=_mean_error((work.error, work.flop) for work in same),
        )
        for same in counts.values()
    )
    return tuple(sorted(summed, key=lambda work: -work.flop))


def _mean_error(terms: Iterable[tuple[float, float]]) -> float:
    """The relative error of a sum. ``terms``: the error and the value of each term."""
    pairs = list(terms)
    whole = sum(value for _, value in pairs)
    return sum(error * value for error, value in pairs) / whole if whole else 0.0


def precisions_of(work: Iterable[WorkCount]) -> tuple[str, ...]:
    """The precisions of some work, each once."""
    return tuple(dict.fromkeys(count.precision for count in work))


def _traffic(rows: Sequence[KernelCounters], calls: int) -> Iterator[TrafficCount]:
    levels = dict.fromkeys(traffic.level for row in rows for traffic in row.traffic)
    for level in levels:
        of_level = [next((t for t in row.traffic if t.level == level), None) for row in rows]
        first = next(traffic for traffic in of_level if traffic is not None)
        sums = {
            way: total((getattr(traffic, way) if traffic else None for traffic in of_level), rows)
            for way in _WAYS
        }
        reasons = {n: why for traffic in of_level if traffic for n, why in traffic.unknown.items()}
        yield TrafficCount(
            level=level,
            formula=first.formula,
            error=_mean_error((t.error, t.traffic_bytes or 0.0) for t in of_level if t is not None),
            **{way: None if value is None else value / calls for way, value in sums.items()},
            unknown={
                way: reasons.get(way, "not every launch has it")
                for way, value in sums.items()
                if value is None
            },
        )


def _mean_clocks_hz(rows: Sequence[KernelCounters]) -> dict[str, float]:
    """Cycles over time: clocks weighted with the time of each launch that has both."""
    means: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row.clocks_hz):
        clocks = [
            (row.clocks_hz[name], (row.time_s or 0) * row.n_launches)
            for row in rows
            if name in row.clocks_hz
        ]
        spent_s = sum(time_s for _, time_s in clocks)
        if spent_s:
            means[name] = sum(hz * time_s for hz, time_s in clocks) / spent_s
    return means


def n_calls(rows: Sequence[KernelCounters]) -> int:
    """The calls of the network that ``rows`` are of: 1 where the export does not say."""
    return len({row.iteration for row in rows if row.iteration is not None}) or 1


def memory_of(row: KernelCounters) -> TrafficCount | None:
    """The traffic with memory."""
    return next((traffic for traffic in row.traffic if traffic.level == "memory"), None)


def by_kernel(rows: Sequence[KernelCounters], calls: int | None = None) -> tuple[KernelSum, ...]:
    """The kernels of ``rows``, as for ``call_sum``, by their time in a call."""
    calls = calls or n_calls(rows)
    named: dict[str, list[KernelCounters]] = {}
    for row in rows:
        named.setdefault(row.kernel, []).append(row)
    sums = {name: call_sum(launches, calls) for name, launches in named.items()}
    known = [call.time_s for call in sums.values() if call.time_s is not None]
    whole_s = sum(known) if len(known) == len(sums) else None
    kernels = [_kernel(name, launches, whole_s) for name, launches in sums.items()]
    return tuple(sorted(kernels, key=lambda kernel: -(kernel.time_s or 0)))


def _kernel(name: str, call: CallSum, whole_s: float | None) -> KernelSum:
    memory = next(traffic for traffic in call.traffic if traffic.level == "memory")
    values: dict[str, float | None] = {
        "time_s": call.time_s,
        "share": call.time_s / whole_s if call.time_s is not None and whole_s else None,
        "work_flop": call.work_flop,
        "pagoda_flop": call.pagoda_flop,
        **{way: getattr(memory, way) for way in _WAYS},
    }
    reasons = {**call.unknown, **memory.unknown, "share": "not every kernel's time is known"}
    return KernelSum(
        kernel=name,
        launches=call.launches,
        precisions=precisions_of(call.work),
        least_flop=float(sum(work.flop for work in call.work)),
        **values,
        unknown={n: reasons[n] for n, value in values.items() if value is None},
    )


def total(values: Iterable[float | None], rows: Sequence[KernelCounters]) -> float | None:
    """The sum over all launches of ``rows``; None where one of them is not known."""
    products = [
        None if v is None else v * row.n_launches for v, row in zip(values, rows, strict=True)
    ]
    known = [product for product in products if product is not None]
    return sum(known) if len(known) == len(products) else None
