"""Layers that were run alone, as files in the layout of NN-Profiler: one for each power mode.

https://github.com/Varatheepan/NN-Profiler, README.md, "Post process data": network, device (``cpu``
or ``gpu``), ``power`` or ``latency``, number of the layer from 0. A latency is the seconds of one
run of the layer, a power the mean of a rail in mW, by the rail's name. Ours are the median of the
loop, and the median of the energy windows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeAlias

import msgspec

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels, engine_name
from mansard.analytics.models.scaling.observations import shown_parts
from mansard.core.records import Measurement

Layers: TypeAlias = dict[str, "float | dict[str, float]"]
ModeFile: TypeAlias = dict[str, dict[str, dict[str, Layers]]]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def parts_of(dataset: Dataset) -> list[tuple[str, str, Measurement]]:
    """The parts of all runs that count, each with its machine and mode, the oldest first."""
    devices = device_labels(dataset.all_manifests)
    modes = {run.run_id: run.mode_read_back.name for run in dataset.workload_manifests}
    rows = sorted(shown_parts(dataset), key=lambda row: row.started_utc)
    return [(devices[row.run_id], modes[row.run_id], row) for row in rows]


def mode_files(
    rows: Sequence[tuple[str, str, Measurement]], numbers: Mapping[str, int]
) -> dict[str, bytes]:
    """The content of each file by its name, of the parts in ``rows``: machine, mode, measurement.

    A file is called by the number of its mode in ``numbers``, ``Mode0.json``. Of several machines
    each has its name in front. The name of a network that a processor ran in several ways, such as
    batch sizes or engines, says which.
    """
    parts = [each for each in rows if each[2].is_part and each[2].seconds_s]
    machines = {machine for machine, _, _ in parts}
    variants: dict[tuple[str, str], list[tuple[str | None, ...]]] = {}
    for _, _, row in parts:
        variants.setdefault((row.part.whole, row.processor), []).append(_variant(row))
    found: dict[str, ModeFile] = {}
    for machine, mode, row in parts:
        board = f"{_UNSAFE.sub('_', machine)}-" if len(machines) > 1 else ""
        name, ways = row.part.whole, zip(*variants[row.part.whole, row.processor], strict=True)
        for value, all_values in zip(_variant(row), ways, strict=True):
            name += f" {value}" if value and len(set(all_values)) > 1 else ""
        network = found.setdefault(f"{board}Mode{numbers[mode]}.json", {})
        device = network.setdefault(name, {}).setdefault(row.processor, {})
        layer = str(row.part.number)
        powers_mw = _powers_mw(row)
        if powers_mw:
            device.setdefault("power", {})[layer] = powers_mw
        device.setdefault("latency", {})[layer] = median(row.seconds_s)
    return {name: msgspec.json.format(msgspec.json.encode(each)) for name, each in found.items()}


def _variant(row: Measurement) -> tuple[str | None, ...]:
    batch = None if row.batch is None else f"batch {row.batch}"
    kind = None if row.part.kind == "layer" else f"{row.part.kind}s"
    return (batch, row.precision, kind, engine_name(row))


def _powers_mw(row: Measurement) -> dict[str, float]:
    """The mean power of each rail that is known in every window."""
    powers: dict[str, list[float]] = {}
    windows = [each for each in row.energy or () if each.window_s > 0 and not each.is_disturbed]
    for window in windows:
        for rail in window.rails:
            if rail.energy_j is not None:
                powers.setdefault(rail.rail, []).append(1e3 * rail.energy_j / window.window_s)
    return {rail: median(values) for rail, values in powers.items() if len(values) == len(windows)}
