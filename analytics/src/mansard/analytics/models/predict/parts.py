"""Layers and stages that were run alone, beside their network; their sum against the whole.

The sum of the parts less the whole, term by term. T is the time of a call in the loop; L the time
of an engine's layer while profiled, of the part or of the whole; n the number of parts.

    calls        (n − 1) · call, a call of the engine that does nothing: from chains of tiny nodes
    conversions  Σ L of layers without a node of a part's own: casts, reorders, copies that the
                 engine adds; of all parts less those of the whole
    fusion       Σ L of parts whose nodes the engine ran in one layer in the whole, less the L of
                 that layer
    caches       Σ L of all other parts less the same in the whole: data that are warm because the
                 part runs again and again, or that lie elsewhere in memory
    rest         what is left: the cost of the profile, starts of nodes, noise
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels, display_name, engine_name, network_names
from mansard.analytics.data.names import network_key as network_key_of
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.predict.measured import reading_order
from mansard.analytics.models.predict.row_times import energies_of, remark_on, times_of
from mansard.analytics.models.scaling.call_energy import call_energy
from mansard.analytics.models.scaling.coefficients import find_node_launches
from mansard.analytics.models.scaling.observations import network_measurements, ran_as, shown_parts
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.records import LayerTime, Measurement, NetworkPart, PartKind, Record, Source
from mansard.core.text import natural_key


class PartTimes(Record, frozen=True, kw_only=True):
    """One layer or stage of a network in one mode, run alone. Energies are of one call."""

    run_id: str
    device: str
    mode: str
    network: str  # that it is of, as it is shown
    batch: int | None
    precision: str
    engine: str
    source: Source
    part: NetworkPart
    time_s: float | None  # median of the loop; low and high: where the next run will be, 95 %
    low_s: float | None
    high_s: float | None
    in_network_s: float | None  # the engine's layers of the same nodes, in the whole, profiled
    energy_j: float | None  # with its ends as in NetworkTimes
    energy_low_j: float | None
    energy_high_j: float | None
    above_idle_j: float | None
    power_w: float | None
    remark: str  # why it has no times; empty: it counts


class PartSum(Record, frozen=True, kw_only=True):
    """All parts of a network in one mode against the whole; the module's text has the terms."""

    device: str
    mode: str
    network: str
    batch: int | None
    precision: str
    engine: str
    source: Source
    kind: PartKind
    n_parts: int  # that the network was cut into
    n_measured: int  # of these, alone
    whole_s: float | None
    parts_s: float | None  # of those that were measured
    difference_s: float | None  # parts less whole; the sum of the five terms
    calls_s: float | None
    conversions_s: float | None
    fusion_s: float | None
    caches_s: float | None
    rest_s: float | None
    n_fused: int | None  # layers of the engine in the whole that hold nodes of several parts
    whole_j: float | None
    parts_j: float | None


# The layers of a whole network over its time: 0.97 to 1.3 on ONNX Runtime.
_MOST_PROFILED = 1.5
_NO_WHOLE = "no time is known of the whole network in this mode, with these dimensions and engine"
_TERMS = ("calls_s", "conversions_s", "fusion_s", "caches_s", "rest_s")


class _PartPlace(NamedTuple):
    """What parts and their whole have in common."""

    device: str
    mode: str
    network: str
    batch: int | None
    precision: str
    engine: str


def measured_parts(dataset: Dataset) -> tuple[PartTimes, ...]:
    """The parts that were run alone, by device, network, batch, engine and mode, in their order."""
    measured = _measured_parts(dataset)
    rows = [
        _part_times(row, at[0], measured) for at, parts in measured.parts.items() for row in parts
    ]
    return tuple(sorted(rows, key=_order))


def part_sums(dataset: Dataset, run_ids: frozenset[str] | None = None) -> tuple[PartSum, ...]:
    """One for each network, engine and mode of which parts were run alone, of one kind.

    ``run_ids``: only where one of these runs measured a part.
    """
    measured = _measured_parts(dataset)
    sums = [
        _sum(where, rows, measured)
        for (where, _kind), rows in measured.parts.items()
        if run_ids is None or any(row.run_id in run_ids for row in rows)
    ]
    return tuple(sorted(sums, key=lambda s: (s.device, natural_key(s.network), s.batch or 0)))


class _MeasuredParts(NamedTuple):
    parts: dict[tuple[_PartPlace, str], list[Measurement]]  # also by kind
    wholes: dict[tuple[_PartPlace, object], Measurement]  # also by ``ran_as``
    calls_s: dict[tuple[str, str, str], float | None]  # by device, mode and engine
    idle_w: dict[str, float | None]  # by run


def _measured_parts(dataset: Dataset) -> _MeasuredParts:
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices, names = device_labels(dataset.all_manifests), network_names(dataset)

    def where(row: Measurement) -> _PartPlace:
        name = row.part.whole or row.model
        key = network_key_of(name, row.part.whole_hash or row.model_hash)
        return _PartPlace(
            devices[row.run_id],
            runs[row.run_id].mode_read_back.name,
            names.get(key, display_name(name)),
            row.batch,
            row.precision,
            engine_name(row),
        )

    good = (row for row in network_measurements(dataset) if not why_unused(row))
    wholes = sorted(good, key=lambda row: (row.started_utc, row.run_id))  # the newest counts
    parts: dict[tuple[_PartPlace, str], list[Measurement]] = {}
    for row in shown_parts(dataset):
        parts.setdefault((where(row), row.part.kind), []).append(row)
    return _MeasuredParts(
        parts,
        {(where(row), ran_as(row)): row for row in wholes},
        {
            (launch.device, launch.mode, launch.engine): launch.call_s
            for launch in find_node_launches(dataset, devices)
        },
        {run.run_id: idle_power_w(run) for run in dataset.workload_manifests},
    )


def _order(row: PartTimes) -> tuple[object, ...]:
    return (*reading_order(row), row.part.kind, row.part.number)


def _part_times(row: Measurement, where: _PartPlace, measured: _MeasuredParts) -> PartTimes:
    idle_w = measured.idle_w[row.run_id]
    energies, no_energy = energies_of(row, idle_w)
    values: dict[str, Any] = times_of(row) | energies
    whole = measured.wholes.get((where, ran_as(row)))
    values["in_network_s"], why_not = _in_network_s(row.part, whole)
    why = remark_on(row)
    reasons = {
        **dict.fromkeys(("time_s", "low_s", "high_s"), why or "no call was timed"),
        **no_energy,
        "in_network_s": why_not,
        "batch": "the model does not say which dimension is the batch",
    }
    values |= where._asdict()
    return PartTimes(
        run_id=row.run_id,
        source=row.source,
        part=row.part,
        remark=why,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,
    )


def _in_network_s(part: NetworkPart, whole: Measurement | None) -> tuple[float | None, str]:
    """What the engine's layers of the part's nodes take in the whole, or why that is not known."""
    if whole is None:
        return None, _NO_WHOLE
    if whole.layers is None:
        return None, whole.unknown["layers"]
    part_nodes = set(part.nodes)
    layers = [layer for layer in whole.layers if part_nodes.intersection(layer.nodes or ())]
    held = {node for layer in layers for node in layer.nodes or ()}
    if part_nodes - held:
        return None, "the engine does not say in which of its layers they are"
    return sum(map(_seconds_s, layers)), ""


def _seconds_s(layer: LayerTime) -> float:
    return median(layer.seconds_s) if layer.seconds_s else 0.0


def _sum(where: _PartPlace, rows: Sequence[Measurement], measured: _MeasuredParts) -> PartSum:
    good = [row for row in rows if not why_unused(row)]
    whole = measured.wholes.get((where, ran_as(rows[0])))
    part = rows[0].part
    times_s = [median(row.seconds_s) for row in good]
    values: dict[str, Any] = {
        "whole_s": None if whole is None else median(whole.seconds_s),
        "parts_s": sum(times_s) if times_s else None,
        "whole_j": None if whole is None else _energy_j(whole),
        "parts_j": _sum_of(map(_energy_j, good)),
    }
    why = _why_no_terms(whole, good, part.n_parts)
    terms: dict[str, float | int | None] = dict.fromkeys(("difference_s", *_TERMS, "n_fused"))
    if whole is not None and not why:
        call_s = measured.calls_s.get((where.device, where.mode, where.engine))
        terms = _terms(whole, good, call_s)
    values |= terms
    reasons = {
        **dict.fromkeys(("difference_s", *_TERMS, "n_fused"), why),
        "whole_s": _NO_WHOLE,
        "parts_s": "none could be measured",
        "whole_j": "no energy of the whole network",
        "parts_j": "the energy of some is unknown",
        "batch": "the model does not say which dimension is the batch",
        **({} if why else {"calls_s": "no chains of tiny nodes were run; it is in the rest"}),
    }
    values |= where._asdict()
    return PartSum(
        source=rows[0].source,
        kind=part.kind,
        n_parts=part.n_parts,
        n_measured=len(good),
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,
    )


def _why_no_terms(whole: Measurement | None, good: Sequence[Measurement], n_parts: int) -> str:
    if whole is None:
        return _NO_WHOLE
    if len(good) < n_parts:
        return f"{len(good)} of its {n_parts} parts were measured"
    for row in (whole, *good):
        if row.layers is None:
            return f"no layers of {display_name(row.model)}: {row.unknown['layers']}"
        if any(layer.nodes is None for layer in row.layers):
            return f"the engine does not say which nodes its layers of {row.model} are"
    ratio = sum(map(_seconds_s, whole.layers or ())) / median(whole.seconds_s)
    if not 1 / _MOST_PROFILED <= ratio <= _MOST_PROFILED:
        return (
            f"its layers while profiled take {ratio:.2g} times what it takes in the loop: "
            "something else ran, or much lies outside of its layers"
        )
    return ""


def _terms(
    whole: Measurement, parts: Sequence[Measurement], call_s: float | None
) -> dict[str, float | int | None]:
    part_of = {node: at for at, row in enumerate(parts) for node in row.part.nodes}
    inside: list[tuple[frozenset[int], float]] = []  # of the whole: parts of a layer, its time
    added_s = 0.0
    for layer in whole.layers or ():
        held = frozenset(part_of[node] for node in layer.nodes or () if node in part_of)
        inside.append((held, _seconds_s(layer)))
        added_s -= 0.0 if held else _seconds_s(layer)
    own_s = []
    for at, row in enumerate(parts):
        layers = row.layers or ()
        mine = [layer for layer in layers if any(part_of.get(n) == at for n in layer.nodes or ())]
        own_s.append(sum(map(_seconds_s, mine)))
        added_s += sum(map(_seconds_s, layers)) - own_s[-1]
    fused = {at for held, _ in inside if len(held) > 1 for at in held}
    changes_s = dict(enumerate(own_s))
    for held, seconds_s in inside:
        if held:
            changes_s[min(held)] -= seconds_s
    fusion_s = sum(change_s for at, change_s in changes_s.items() if at in fused)
    difference_s = sum(median(row.seconds_s) for row in parts) - median(whole.seconds_s)
    known = {
        "calls_s": None if call_s is None else (len(parts) - 1) * call_s,
        "conversions_s": added_s,
        "fusion_s": fusion_s,
        "caches_s": sum(changes_s.values()) - fusion_s,
    }
    return {
        **known,
        "difference_s": difference_s,
        "rest_s": difference_s - sum(value or 0.0 for value in known.values()),
        "n_fused": sum(len(held) > 1 for held, _ in inside),
    }


def _energy_j(row: Measurement) -> float | None:
    return call_energy(row.energy or (), row.seconds_s).energy_j


def _sum_of(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known or not known else sum(filter(None, known))
