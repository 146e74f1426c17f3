"""Rows of runs as quantities with their repetitions.

Of the rows of one name those count that have the build of the newest good one: the same label,
versions and content. Each of them is a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, engine_name, window_name
from mansard.analytics.data.totals import known_totals
from mansard.analytics.data.transients import settled_network, settled_program
from mansard.analytics.decisions.comparing.kinds import KINDS, Kind
from mansard.analytics.decisions.comparing.sides import (
    LEAST,
    MOST,
    ComparedQuantity,
    UnusableQuantity,
)
from mansard.analytics.decisions.comparing.significance import (
    FEWEST_STRETCHES,
    Centre,
    Span,
    find_centre,
    run_level,
)
from mansard.analytics.models.scaling.use_of_rows import why_unused, windows_by_name
from mansard.core.records import (
    EnergyWindow,
    GenerationRun,
    Manifest,
    Measurement,
    MultiRun,
    ProgramRun,
    chain_length,
)

_CALLS_OF_TAIL = 100  # a percentile of fewer calls is their longest one


class Observed(NamedTuple):
    """One quantity of one row. ``why``: why it is not usable; empty where it is.

    ``is_disturbed``: it is not usable because the run was disturbed; another run may be.
    """

    kind: Kind
    name: str
    unit: str
    run: Mapping[str, Sequence[float]]
    build: object  # equal for rows of the same build
    when: tuple[str, str]
    why: str = ""
    alias: str = ""
    span: Span | None = None  # where the value is not the level of its repetitions
    is_disturbed: bool = False


def quantities_of(
    observed: Iterable[Observed],
) -> tuple[tuple[ComparedQuantity, ...], tuple[UnusableQuantity, ...]]:
    """Rows of one name as one quantity, in the order of the first; what has no value apart."""
    rows_of: dict[str, list[Observed]] = {}
    for row in observed:
        rows_of.setdefault(row.name, []).append(row)
    quantities, unusable = [], []
    for name, rows in rows_of.items():
        rows.sort(key=lambda row: row.when)
        good = [row for row in rows if not _why_not(row)]
        last = (good or rows)[-1]
        n_disturbed = sum(row.is_disturbed and row.build == last.build for row in rows)
        if not good:
            why = _why_not(last)
            unusable.append(
                UnusableQuantity(kind=last.kind, name=name, why=why, n_disturbed=n_disturbed)
            )
            continue
        same = [row for row in good if row.build == last.build and row.unit == last.unit]
        runs = tuple({k: tuple(map(float, v)) for k, v in row.run.items()} for row in same)
        value, low, high = last.span or level_span(runs)
        ends = {"low": low, "high": high}
        quantities.append(
            ComparedQuantity(
                kind=last.kind,
                name=name,
                unit=last.unit,
                value=value,
                runs=runs,
                alias=last.alias,
                n_disturbed=n_disturbed,
                unknown={key: "too few repetitions" for key, end in ends.items() if end is None},
                **ends,
            )
        )
    return tuple(quantities), tuple(unusable)


def _why_not(row: Observed) -> str:
    if row.why or (row.span is not None and not row.run):
        return row.why
    values = [value for part in row.run.values() for value in part]
    if not values:
        return "nothing was measured"
    if not all(math.isfinite(value) and value <= MOST for value in values):
        return "a repetition is not a number, or above all that is measured"
    return "" if min(values) >= LEAST else "a repetition is 0 or less, of which there is no ratio"


def level_span(runs: Sequence[Mapping[str, Sequence[float]]]) -> Span:
    """The level of runs of one experiment each, with its 95 % interval: by the scatter within one
    run, or between several."""
    parts = [[np.asarray(part, np.float64) for part in run.values()] for run in runs]
    logs = [run_level(values)[0] for values in parts]
    value = math.exp(float(np.mean(logs)))
    if len(runs) > 1:
        deviation = float(np.std(logs, ddof=1)) / math.sqrt(len(runs))
        half = Centre(math.log(value), deviation, len(runs) - 1).half
        return value, value * math.exp(-half), value * math.exp(half)
    centre = find_centre(parts[0][0])
    if centre is None or len(parts[0][0]) < FEWEST_STRETCHES:
        return value if centre is not None else float(parts[0][0][0]), None, None
    return value, value * math.exp(-centre.half), value * math.exp(centre.half)


def workload_rows(
    dataset: Dataset, manifests: Sequence[Manifest], *, with_layers: bool
) -> Iterator[Observed]:
    """Networks, their layers if ``with_layers``, programs, servers and networks at once."""
    runs = {run.run_id: run for run in manifests}
    for measured in dataset.measurements:
        if measured.run_id in runs and chain_length(measured.model) is None:
            row = settled_network(measured)
            yield from _of_network(row, _build(runs[row.run_id]), with_layers=with_layers)
    for program in dataset.programs:
        if program.run_id in runs:
            yield from _of_program(settled_program(program), _build(runs[program.run_id]))
    for server in dataset.generations:
        if server.run_id in runs:
            yield from _of_server(server, _build(runs[server.run_id]))
    for multi in dataset.multi:
        if multi.run_id in runs:
            yield from _of_several(multi, _build(runs[multi.run_id]))


def _build(run: Manifest) -> tuple[object, ...]:
    return (run.label, run.tool_version, tuple(sorted(run.versions.items())), run.image_digest)


class _Row(NamedTuple):
    """What the quantities of one row have in common."""

    name: str
    build: object
    when: tuple[str, str]
    why: str
    is_disturbed: bool

    def observed(
        self,
        kind: Kind,
        unit: str,
        values: Sequence[float],
        *,
        name: str | None = None,
        words: str | None = None,
        alias: str = "",
        why: str = "",
        is_disturbed: bool = False,
    ) -> Observed:
        """``why``: why it is not usable, where the row is; ``is_disturbed``: for disturbances."""
        words = KINDS[kind].words if words is None else words
        whole = f"{name or self.name}: {words}" if words else name or self.name
        return Observed(
            kind,
            whole,
            unit,
            {"": values},
            self.build,
            self.when,
            self.why or why,
            alias,
            is_disturbed=self.is_disturbed or (not self.why and is_disturbed),
        )


def _of_network(
    row: Measurement, build: tuple[object, ...], *, with_layers: bool
) -> Iterator[Observed]:
    if row.is_part and not (with_layers and row.part.kind in {"layer", "stage"}):
        return
    sizes = sorted(item for item in row.dimensions.items() if item != ("batch", row.batch))
    words = [
        f"{display_name(row.model)} {row.phase}",
        f"batch {row.batch}",
        *(f"{display_name(name)} {size}" for name, size in sizes),
        row.precision,
        engine_name(row),
    ]
    of = _Row(
        ", ".join(words),
        (*build, row.model_hash, row.engine_version, tuple(sorted(row.options.items()))),
        (row.started_utc, row.run_id),
        why_unused(row),
        row.failure is None and bool(row.disturbances),
    )
    if row.is_part:
        yield of.observed("layer", "s", row.seconds_s, words=f"{row.part.kind} run alone")
        return
    yield of.observed("p50", "s", row.seconds_s)
    tails = _tails(row.call_seconds_s)
    few = f"{len(row.call_seconds_s)} single calls were timed, {_CALLS_OF_TAIL} are needed"
    yield of.observed("p99", "s", tails, why="" if tails else few)
    yield _energy(of, row.energy or (), row.unknown, is_of_one=True)
    yield _memory(of, row)
    if with_layers:
        yield from _layers(row, of)


def _tails(seconds_s: Sequence[float]) -> list[float]:
    """The 99th percentile of each hundred single calls: all are of the same number of calls."""
    n = len(seconds_s) // _CALLS_OF_TAIL
    hundreds = np.asarray(seconds_s[: n * _CALLS_OF_TAIL]).reshape(n, _CALLS_OF_TAIL)
    return [float(value) for value in np.quantile(hundreds, 0.99, axis=1)]


def _layers(row: Measurement, of: _Row) -> Iterator[Observed]:
    counts: dict[str, int] = {}
    for layer in row.layers or ():
        name = display_name(layer.name)
        counts[name] = counts.get(name, 0) + 1
        number = f" #{counts[name]}" if counts[name] > 1 else ""
        nodes = f"{of.name}|{row.model_hash}|{layer.nodes}" if layer.nodes else ""
        yield of.observed("layer", "s", layer.seconds_s, words=f"layer {name}{number}", alias=nodes)


def _of_program(row: ProgramRun, build: tuple[object, ...]) -> Iterator[Observed]:
    of = _Row(
        display_name(row.workload),
        (*build, row.program_hash, tuple(sorted(row.environment.items()))),
        (row.started_utc, row.run_id),
        why_unused(row),
        bool(row.disturbances),
    )
    runs = row.repetitions
    yield of.observed("p50", "s", [run.wall_s for run in runs])
    yield _energy(of, [run.energy for run in runs], next((r.unknown for r in runs), {}))
    memory = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
    why = next((r.unknown.get("peak_memory_bytes", "") for r in runs), "")
    yield of.observed("memory", "B", memory, why="" if memory else why)
    if row.metric_pattern is not None:
        metrics = [run.metric for run in runs if run.metric is not None]
        yield of.observed("metric", "", metrics)
    for title, windows in windows_by_name(runs).items():
        name = window_name(row.workload, title)
        lengths_s = [window.window_s for window in windows if window.window_s > 0]
        yield of.observed("p50", "s", lengths_s, name=name)
        yield _energy(of, [one.energy for one in windows], windows[0].unknown, name=name)
    for title in dict.fromkeys(name for run in runs for name in run.figures):
        rates = [run.figures[title] for run in runs if title in run.figures]
        yield of.observed("rate", "tokens/s", rates, name=window_name(row.workload, title))


def _energy(
    of: _Row,
    windows: Iterable[EnergyWindow | None],
    unknown: Mapping[str, str],
    *,
    name: str | None = None,
    words: str | None = None,
    is_of_one: bool = False,
) -> Observed:
    """The energy of each window; ``is_of_one``: of one repetition of what the window repeats."""
    totals = known_totals(window for window in windows if window is not None)
    values = [
        total_j / window.repetitions if is_of_one else total_j
        for total_j, window in totals
        if not window.is_disturbed and (window.repetitions > 0 or not is_of_one)
    ]
    is_disturbed = not values and "energy" not in unknown
    why = "" if values else unknown.get("energy", "no undisturbed window has an energy")
    return of.observed(
        "energy", "J", values, name=name, words=words, why=why, is_disturbed=is_disturbed
    )


def _of_server(row: GenerationRun, build: tuple[object, ...]) -> Iterator[Observed]:
    rounds = row.counted
    why = "; ".join(row.disturbances) or ("" if rounds else "no round counts")
    options = (*sorted(row.environment.items()), *sorted(row.options.items()))
    of = _Row(
        f"{display_name(row.workload)} on {display_name(row.server)}, prompt {row.prompt_tokens}, "
        f"answer {row.generate_tokens}, {row.concurrency} at once",
        (*build, row.server_version, row.server_hash, options),
        (row.started_utc, row.run_id),
        why,
        bool(row.disturbances),
    )
    yield of.observed(
        "first-token",
        "s",
        [float(np.median([r.event_s[0] for r in one.requests])) for one in rounds],
    )
    tokens_s = [[r.token_s for r in one.requests if r.token_s is not None] for one in rounds]
    yield of.observed("token-time", "s", [float(np.median(part)) for part in tokens_s if part])
    yield of.observed(
        "rate", "tokens/s", [one.n_tokens / (one.end_s - one.start_s) for one in rounds]
    )
    wholes = [one.whole for one in rounds]
    missing = [one.unknown["whole"] for one in rounds if one.whole is None]
    no_energy = {"energy": missing[0]} if missing else {}
    yield _energy(of, wholes, no_energy, words="energy of a token", is_of_one=True)
    yield _memory(of, row)


def _of_several(row: MultiRun, build: tuple[object, ...]) -> Iterator[Observed]:
    why = row.failure or "; ".join(row.disturbances)
    of = _Row(
        f"{display_name(row.mapping)}, {row.order}, in {row.way}",
        (*build, row.engine_version, tuple(sorted(row.options.items()))),
        (row.started_utc, row.run_id),
        why,
        not row.failure and bool(row.disturbances),
    )
    if row.round_s:
        yield of.observed("p50", "s", row.round_s, words="makespan")
    for number, network in enumerate(row.networks, start=1):
        name = f"{of.name}: network {number}, {display_name(network.model)}"
        yield of.observed("p50", "s", network.latency_s, name=name)
        rate = [network.n_runs / row.window_s] if row.window_s else []
        yield of.observed("rate", "1/s", rate, name=name, why=row.unknown.get("window_s", ""))
    yield _energy(of, (row.energy,), row.unknown, words="energy of a run", is_of_one=True)
    yield _memory(of, row)


def _memory(of: _Row, row: Measurement | GenerationRun | MultiRun) -> Observed:
    memory = () if row.memory_bytes is None else (row.memory_bytes,)
    return of.observed("memory", "B", memory, why=row.unknown.get("memory_bytes", ""))
