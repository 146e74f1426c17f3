"""Estimates compared with counters and measured times, for each part and in total.

Each difference is put into a class by kernels and shapes. A class has a bound or predicts the
count: padding, the FLOP of whole tiles; split sums, the bytes of their partial results; unfused
kernels, the bytes of nodes that run alone. A difference in no class is "not explained".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mansard.analytics.models.counters.by_kernel import (
    call_sum,
    memory_of,
    n_calls,
    precisions_of,
    total,
)
from mansard.analytics.models.counters.estimates import (
    CountedProduct,
    EstimatePart,
    nearest_padding,
    parts_of,
    splits_of,
    tile_of,
)
from mansard.analytics.models.counters.matching import Matching, is_split_sum, match
from mansard.core.records import KernelCounters, LayerTime, ModelScore, Record, Source

AGREE = 0.05  # counted within so much of the estimate: no difference to explain
NOT_EXPLAINED = "not explained"
PADDING = "padding to tiles"
EPILOGUE = "scaling and bias of a product"
SEVERAL = "operations as several instructions"
WINOGRAD = "Winograd"
SPLIT = "split sums"
REFORMATS = "reformats"
UNFUSED = "not fused"
CACHE = "kept in the cache"
FUSED = "fused further"
LAUNCH = "code and parameters of a kernel"
# Recorded kernels read 4 to 24 kB beside their tensors, the same whatever they work on.
_LAUNCH_BYTES = 25_000
_MOST_SPLITS = 16
_EPILOGUE_FLOP = 3.0  # for each output: alpha, beta and the bias
_PARTIAL_BYTES = 4  # of a partial sum
# Recorded kernels of elementwise operations have 1 to 9 instructions' FLOP for one of ours.
_MOST_FLOP = 16.0
# Lavin and Gray (CVPR 2016): F(6×6, 3×3) does 64 multiplications instead of 324.
_MOST_SAVED = 324 / 64
_WINOGRAD = re.compile(r"winograd", re.I)
_REFORMAT = re.compile(r"reformat|nchwtonhwc|nhwctonchw|transpose|permut|copy", re.I)


def is_near(counted: float, expected: float, share: float = AGREE) -> bool:
    """Whether a count agrees with what is expected."""
    return abs(counted - expected) <= share * expected


def work_classes(
    part: EstimatePart, rows: Sequence[KernelCounters], counted_flop: float
) -> tuple[str, ...]:
    """The classes that explain ``counted_flop``; empty where it agrees with the estimate."""
    expected = part.work_flop
    if expected is None or is_near(counted_flop, expected):
        return ()
    is_winograd = any(_WINOGRAD.search(row.kernel) for row in rows)
    if is_winograd and expected / _MOST_SAVED <= counted_flop < expected:
        return (WINOGRAD,)
    classes = () if part.product is None else _of_product(part, part.product, rows, counted_flop)
    if not classes and _is_several(part, rows, counted_flop):
        classes = (SEVERAL,)
    return classes or (NOT_EXPLAINED,)


def _is_several(part: EstimatePart, rows: Sequence[KernelCounters], counted_flop: float) -> bool:
    """Whether the operations beside the multiply-adds have more FLOP, and these agree."""
    sums = part.multiply_add_flop or 0.0
    if sums:
        flop = sum(work.flop for row in rows for work in row.work if work.unit == "tensor core")
        if not is_near(flop, sums):
            return False
    others = (part.work_flop or 0.0) - sums
    return others < counted_flop - sums <= _MOST_FLOP * others


def _of_product(
    part: EstimatePart, product: CountedProduct, rows: Sequence[KernelCounters], counted_flop: float
) -> tuple[str, ...]:
    """The classes of a product by the tiles of the first kernel that fits; empty if incomplete."""
    is_split = any(is_split_sum(row) for row in rows)
    padded = next(
        (
            nearest_padding(product, tile, row.grid, counted_flop, _MOST_SPLITS if is_split else 1)
            for row in rows
            if (tile := tile_of(row.kernel))
        ),
        product.flop,
    )
    beside = (part.work_flop or product.flop) - product.flop
    padding = (PADDING,) if padded > product.flop * (1 + AGREE / 2) else ()
    if is_near(counted_flop, padded + beside):
        return padding
    epilogue = _EPILOGUE_FLOP * padded / (2 * product.length)
    if padded < counted_flop <= (padded + beside + epilogue) * (1 + AGREE):
        return (*padding, EPILOGUE)
    partial = _n_splits(product, rows) * product.outputs
    fits = padded < counted_flop <= (padded + beside + epilogue + partial) * (1 + AGREE)
    return (*padding, SPLIT) if is_split and fits else ()


def _n_splits(product: CountedProduct, rows: Sequence[KernelCounters]) -> int:
    """In how many parts the sums are split, by tile and grid; as many as usual at most."""
    splits = [
        splits_of(product, tile, row.grid)
        for row in rows
        if row.grid is not None and (tile := tile_of(row.kernel))
    ]
    return max((n for n in splits if n and n > 1), default=_MOST_SPLITS)


def traffic_classes(
    part: EstimatePart,
    rows: Sequence[KernelCounters],
    counted_bytes: float,
    *,
    calls: int = 1,
    cache_bytes: int | None = None,
) -> tuple[str, ...]:
    """The classes that explain ``counted_bytes``; empty where they agree with the estimate.

    ``rows``: the kernels of ``calls`` calls; ``cache_bytes``: the last-level cache.
    """
    expected = part.traffic_bytes
    if expected is None or is_near(counted_bytes, expected):
        return ()
    slack = AGREE * expected
    if counted_bytes < expected:
        missing = expected - counted_bytes - slack
        if missing <= part.between_bytes:
            return (FUSED,)
        # Caches were emptied, so only what is written can stay there.
        resident = min(part.write_bytes or 0.0, cache_bytes or 0)
        return (
            (CACHE,) if missing <= resident and _reads_all(part, rows, calls) else (NOT_EXPLAINED,)
        )
    n_kernels = len(rows) / calls
    bounds = {LAUNCH: 0.0}
    if part.product is not None and any(is_split_sum(row) for row in rows):
        partial = _n_splits(part.product, rows) * part.product.outputs * _PARTIAL_BYTES
        bounds[SPLIT] = 2.0 * partial  # written, and read
    if n_kernels > 1:
        copies = [memory_of(row) for row in rows if _REFORMAT.search(row.kernel)]
        bounds[REFORMATS] = sum(copy.traffic_bytes or 0 for copy in copies if copy) / calls
        bounds[UNFUSED] = (part.bytes_alone or expected) - expected
    extra = counted_bytes - expected - slack - _LAUNCH_BYTES * n_kernels
    for names in ((SPLIT,), (LAUNCH,), (REFORMATS,), (UNFUSED,), (SPLIT, REFORMATS)):
        if all(name in bounds for name in names) and extra <= sum(bounds[name] for name in names):
            return names
    return (NOT_EXPLAINED,)


def _reads_all(part: EstimatePart, rows: Sequence[KernelCounters], calls: int) -> bool:
    """Whether the kernels read as much as estimated, as far as reads were counted apart."""
    memory = [memory_of(row) for row in rows]
    read = total((traffic.read_bytes if traffic else None for traffic in memory), rows)
    return read is None or read / calls >= (1 - AGREE) * (part.read_bytes or 0)


class CheckedPart(Record, frozen=True, kw_only=True):
    """One part of a network: estimated, counted, and measured without a profiler.

    ``classes``: what explains counted work and bytes that differ by more than 5 %.
    """

    name: str
    nodes: tuple[int, ...]
    op_types: tuple[str, ...]
    kernels: tuple[str, ...]
    precisions: tuple[str, ...]  # of its work, as estimated and as counted
    estimated_flop: float | None
    counted_flop: float | None
    least_flop: float | None  # of the units that were counted
    pagoda_flop: float | None  # counted by the rule of Pagoda's ert_method.py
    work_ratio: float | None  # counted over estimated
    estimated_bytes: float | None
    counted_bytes: float | None
    bytes_ratio: float | None
    counted_s: float | None  # of its kernels
    measured_s: float | None  # of its layers
    work_classes: tuple[str, ...]
    bytes_classes: tuple[str, ...]


class CheckedNetwork(Record, frozen=True, kw_only=True):
    """One network in one setting: its parts, and all of it.

    ``matched``: how kernels were joined to parts; ``matched_share``: of the kernels' time. Parts
    that kernels have in common are one part.
    ``left``: kernels of no part.
    """

    network: str
    device: str
    mode: str
    source: Source
    citation: str | None
    batch: int | None
    precision: str | None
    matched: str
    is_fused: bool
    matched_share: float | None
    parts: tuple[CheckedPart, ...]
    left: tuple[str, ...]
    precisions: tuple[str, ...]  # of its work: of most of the estimated, and as counted
    estimated_flop: float | None
    counted_flop: float | None
    least_flop: float | None
    pagoda_flop: float | None
    work_ratio: float | None
    estimated_bytes: float | None
    counted_bytes: float | None
    bytes_ratio: float | None
    counted_s: float | None


def check_network(
    score: ModelScore,
    rows: Sequence[KernelCounters],
    layers: Sequence[LayerTime] = (),
    *,
    calls: int | None = None,
    cache_bytes: int | None = None,
    is_warm: bool = False,
) -> CheckedNetwork:
    """Compare ``score`` with ``rows``, the kernels of one network in one setting; at least one.

    Fused groups are parts, or single nodes where more of the kernels' time then has its part.
    ``layers``: measured without a profiler. ``calls``: that the rows are of; None: as their
    iterations say. ``cache_bytes``: the last-level cache. ``is_warm``: caches were not emptied
    before each kernel (``--cache-control none``), and the bytes are no check of the estimate.
    """
    calls = calls or n_calls(rows)
    is_fused, matching = matched_kernels(score, rows, calls)
    parts, of_calls = matching.parts, calls if matching.matched == "nodes" else 1
    times = _times(parts, layers)
    checked = tuple(
        _part(
            part,
            matching.kernels.get(at, ()),
            of_calls,
            times.get(at),
            cache_bytes,
            is_warm=is_warm,
        )
        for at, part in enumerate(parts)
    )
    first, (whole, reasons) = rows[0], _counted(rows, calls)
    estimated = {
        "estimated_flop": _sum([part.work_flop for part in parts]),
        "estimated_bytes": None if is_warm else _sum([part.traffic_bytes for part in parts]),
    }
    values: dict[str, float | None] = {
        **estimated,
        **whole,
        "work_ratio": _ratio(whole["counted_flop"], estimated["estimated_flop"]),
        "bytes_ratio": _ratio(whole["counted_bytes"], estimated["estimated_bytes"]),
        "matched_share": None if matching.matched == "nothing" else _share(matching, rows),
    }
    reasons |= {"matched_share": matching.why} | _no_estimates(is_warm=is_warm)
    unknown = {n: reasons[n] for n, value in values.items() if value is None}
    unknown |= {n: first.unknown[n] for n in _SETTING if getattr(first, n) is None}
    return CheckedNetwork(
        network=first.network or score.model,
        device=first.device,
        mode=first.mode,
        source=first.source,
        matched=matching.matched,
        is_fused=is_fused,
        parts=checked,
        left=tuple(dict.fromkeys(row.kernel for row in matching.left)),
        citation=first.citation,
        batch=first.batch,
        precision=first.precision,
        precisions=_precisions((score.precision,), rows),
        **values,
        unknown=unknown,
    )


def _precisions(estimated: Sequence[str], rows: Sequence[KernelCounters]) -> tuple[str, ...]:
    counted = precisions_of(work for row in rows for work in row.work)
    return tuple(dict.fromkeys((*estimated, *counted)))


def matched_kernels(
    score: ModelScore, rows: Sequence[KernelCounters], calls: int
) -> tuple[bool, Matching]:
    """The kernels of fused groups, or of single nodes where those match more of the time.

    The first value is whether the parts are fused groups.
    """
    tried = [match(parts_of(score, fused=fused), rows, calls) for fused in (True, False)]
    return max(
        zip((True, False), tried, strict=True), key=lambda pair: (_share(pair[1], rows), pair[0])
    )


def _share(matching: Matching, rows: Sequence[KernelCounters]) -> float:
    """The share of the kernels' time that has its part; by their number where it is unknown."""
    matched = [row for kernel in matching.kernels.values() for row in kernel]
    all_ = [*matched, *matching.left] or list(rows)
    if any(row.time_s is None for row in all_):
        return len(matched) / len(all_)
    whole = sum((row.time_s or 0) * row.n_launches for row in all_)
    return sum((row.time_s or 0) * row.n_launches for row in matched) / whole if whole else 0.0


def _counted(
    rows: Sequence[KernelCounters], calls: int
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Sums of a call, and why one is not known. ``least_flop``: of the units that were counted."""
    if not rows:
        return dict.fromkeys(_COUNTS), dict.fromkeys((*_COUNTS, *_RATIOS), _NO_KERNEL)
    call = call_sum(rows, calls)
    memory = next(traffic for traffic in call.traffic if traffic.level == "memory")
    values = {
        "counted_flop": call.work_flop,
        "least_flop": float(sum(work.flop for work in call.work)),
        "pagoda_flop": call.pagoda_flop,
        "counted_bytes": memory.traffic_bytes,
        "counted_s": call.time_s,
    }
    no_work = call.unknown.get("work_flop", _NO_RATIO)
    no_bytes = memory.unknown.get("traffic_bytes", _NO_RATIO)
    return values, {
        "counted_flop": no_work,
        "work_ratio": no_work,
        "counted_bytes": no_bytes,
        "bytes_ratio": no_bytes,
        "counted_s": call.unknown.get("time_s", ""),
        "pagoda_flop": call.unknown.get("pagoda_flop", ""),
    }


_COUNTS = ("counted_flop", "least_flop", "pagoda_flop", "counted_bytes", "counted_s")
_RATIOS = ("work_ratio", "bytes_ratio")
_NO_KERNEL = "no kernel was found for it"
_NO_RATIO = "the estimate is 0 or unknown"
_WARM = "caches were not emptied before each kernel, and what they keep is not estimated"


def _part(
    part: EstimatePart,
    rows: Sequence[KernelCounters],
    calls: int,
    measured_s: float | None,
    cache_bytes: int | None,
    *,
    is_warm: bool,
) -> CheckedPart:
    counted, reasons = _counted(rows, calls)
    flop, bytes_ = counted["counted_flop"], counted["counted_bytes"]
    # At least so much work: enough to explain what is above the estimate.
    least, expected = counted["least_flop"], part.work_flop
    known_flop = flop if flop is not None or (least or 0) < (expected or 0) else least
    estimated_bytes = None if is_warm else part.traffic_bytes
    values: dict[str, float | None] = {
        **counted,
        "estimated_flop": expected,
        "estimated_bytes": estimated_bytes,
        "work_ratio": _ratio(flop, part.work_flop),
        "bytes_ratio": _ratio(bytes_, estimated_bytes),
        "measured_s": measured_s,
    }
    reasons |= {"measured_s": "no run measured its layers"} | _no_estimates(is_warm=is_warm)
    return CheckedPart(
        name=part.name,
        nodes=part.nodes,
        op_types=part.op_types,
        kernels=tuple(row.kernel for row in rows),
        precisions=_precisions(part.precisions, rows),
        work_classes=() if known_flop is None else work_classes(part, rows, known_flop),
        bytes_classes=()
        if bytes_ is None or is_warm
        else traffic_classes(part, rows, bytes_, calls=calls, cache_bytes=cache_bytes),
        **values,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
    )


def _no_estimates(*, is_warm: bool) -> dict[str, str]:
    reasons = {
        "estimated_flop": "the work of a node is unknown",
        "estimated_bytes": "the traffic of a node is unknown",
    }
    return (
        reasons | dict.fromkeys(("estimated_bytes", "bytes_ratio"), _WARM) if is_warm else reasons
    )


_SETTING = ("citation", "batch", "precision")


def _times(parts: Sequence[EstimatePart], layers: Sequence[LayerTime]) -> Mapping[int, float]:
    """Median seconds of the layers of each part; a layer of several parts is that of its first."""
    from statistics import median

    part_of = {node: at for at, part in enumerate(parts) for node in part.nodes}
    times: dict[int, float] = {}
    for layer in layers:
        position = next((part_of[node] for node in layer.nodes or () if node in part_of), None)
        if position is not None and layer.seconds_s:
            times[position] = times.get(position, 0.0) + median(layer.seconds_s)
    return times


def _ratio(counted: float | None, expected: float | None) -> float | None:
    return counted / expected if counted is not None and expected else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
