"""What an engine needs on a CPU to call a network and to start each of its nodes, in each mode.

Two chains of tiny nodes were run beside the networks (inference/preparing/chains.py): t(n) = call +
n · node, with the medians of both. The ends of a node's interval are those of both chains at once,
which is more than 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.data.names import engine_name
from mansard.analytics.models.roofs.rates import Estimate, estimate
from mansard.analytics.models.scaling.observations import why_unused
from mansard.core.records import CHAIN_LENGTHS, Measurement, Record, Source, chain_length


class NodeLaunch(Record, frozen=True, kw_only=True):
    """What one engine needs in one mode, s; None where its chains do not tell."""

    run_id: str
    device: str
    mode: str
    engine: str
    node_s: float | None
    node_low_s: float | None
    node_high_s: float | None
    call_s: float | None
    source: Source


_NUMBERS = ("node_s", "node_low_s", "node_high_s", "call_s")


def find_node_launches(dataset: Dataset, labels: dict[str, str]) -> tuple[NodeLaunch, ...]:
    """One for each device, mode and engine with both chains undisturbed: of the newest run.

    The newest run comes last. ``labels``: the device's by run id.
    """
    chains: dict[str, dict[str, list[Measurement]]] = {}
    for row in dataset.measurements:
        if chain_length(row.model) is not None:
            chains.setdefault(row.run_id, {}).setdefault(engine_name(row), []).append(row)
    found: dict[tuple[str, str, str], NodeLaunch] = {}
    for run in sorted(dataset.workload_manifests, key=lambda run: (run.started_utc, run.run_id)):
        device, mode = labels[run.run_id], run.mode_read_back.name
        for engine, rows in chains.get(run.run_id, {}).items():
            launch = _launch(rows, run.run_id, device, mode, engine)
            if launch is not None:
                found.pop((device, mode, engine), None)
                found[device, mode, engine] = launch
    return tuple(found.values())


def _launch(
    rows: Sequence[Measurement], run_id: str, device: str, mode: str, engine: str
) -> NodeLaunch | None:
    by_length = {chain_length(row.model): row for row in rows if not why_unused(row)}
    if not by_length.keys() >= set(CHAIN_LENGTHS):
        return None
    least, most = CHAIN_LENGTHS
    short, long = _median(by_length[least]), _median(by_length[most])
    n_more = most - least
    values: dict[str, float | None] = dict.fromkeys(_NUMBERS)
    why = "the longer chain took no longer than the shorter one"
    node_s = (long.value - short.value) / n_more
    unknown = dict.fromkeys(_NUMBERS, why)
    if node_s > 0:
        values["node_s"], values["call_s"] = node_s, max(short.value - least * node_s, 0.0)
        unknown = dict.fromkeys(_NUMBERS[1:3], "too few blocks to show their own spread")
        if None not in (short.low, short.high, long.low, long.high):
            values["node_low_s"] = max((long.low - short.high) / n_more, 0.0)  # type: ignore[operator]
            values["node_high_s"] = (long.high - short.low) / n_more  # type: ignore[operator]
            unknown = {}
    return NodeLaunch(
        run_id=run_id,
        device=device,
        mode=mode,
        engine=engine,
        source=by_length[most].source,
        unknown=unknown,
        **values,
    )


def _median(row: Measurement) -> Estimate:
    """Of its blocks' medians, s."""
    seconds_s, block = np.array(row.seconds_s), np.array(row.block)
    medians = [float(np.median(seconds_s[block == each])) for each in np.unique(block)]
    return estimate([np.array(medians)])


def node_coefficients(launches: Sequence[NodeLaunch]) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: a node as the launch of a group, in the modes where it was measured.

    Where several engines were timed, the last one of ``launches`` counts.
    """
    rows = [
        {
            "device": each.device,
            "mode": each.mode,
            "quantity": "launch",
            "subject": "",
            "unit": "",
            "value": each.node_s,
            "low": each.node_low_s,
            "high": each.node_high_s,
            "source": each.source,
            "error": None,
            "n_fitted": None,
            "is_extrapolated": False,
            "reason": each.unknown.get("node_s") or each.unknown.get("node_low_s"),
        }
        for each in {(each.device, each.mode): each for each in launches}.values()
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)
