"""Runs of several networks at once, as files in the layout of NN-Profiler: one for each run.

https://github.com/Varatheepan/NN-Profiler, README.md, "multi-DNN" sample of an Orin Nano. Times are
seconds, clocks MHz, use per cent, memory MiB, power mW, temperatures °C; what is not known is null.
Where two stages of a network are on one device, or a network is there twice, the second has ``#2``
behind the name: NN-Profiler writes one over the other. ``gpu`` is called ``cuda``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.core.records import LayerScore, ModelScore, MultiRun, Reading, StageRun
from mansard.estimator import is_functional

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_ENGINES = ("NVDEC", "NVJPG", "NVJPG1", "VIC", "OFA")
_MIB = 2**20
# Names that differ from those of zones and rails by more than their spelling.
_PARTS = {"tj": "Tjunction", "VDD_CPU_GPU_CV": "GPU CPU CV"}
_CPU_NUMBER = re.compile(r"cpu([0-9]+)_share")
_SOC = re.compile(r"soc([0-9])")


def run_files(
    rows: Sequence[tuple[str, str, MultiRun]], scores: Sequence[ModelScore]
) -> dict[str, bytes]:
    """The content of each file by its name, of ``rows``: machine, mode, row. Failed ones have none.

    ``scores``: of the whole networks, for parameters and multiply-adds; those of a network without
    one are null.
    """
    found = {}
    for machine, mode, row in rows:
        if row.failure is None:
            name = f"Mode{_UNSAFE.sub('_', mode)}-{row.run_id[:8]}-{row.trial_id[:8]}.json"
            content = _run(machine, mode, row, scores)
            found[name] = msgspec.json.format(msgspec.json.encode(content))
    return found


def _run(machine: str, mode: str, row: MultiRun, scores: Sequence[ModelScore]) -> dict[str, Any]:
    mapping: dict[str, dict[str, str]] = {}
    summary: dict[str, dict[str, Any]] = {}
    info: dict[str, dict[str, Any]] = {}
    for network, stages in _by_network(row).items():
        layers = _layers(row, stages[0], scores)
        for device, stage in _by_device(stages).items():
            own = [each for each in layers if not stage.nodes or each.index in stage.nodes]
            last = max((each.index for each in own), default=max(stage.nodes, default=0))
            mapping.setdefault(network, {})[str(last)] = _called(stage.device)
            summary.setdefault(network, {})[device] = {
                "infCount": stage.n_runs,
                "avgInfTime": stage.inference_s / stage.n_runs if stage.n_runs else None,
                "avgTransferTime": stage.transfer_s / stage.n_runs if stage.n_runs else None,
            }
            info.setdefault(network, {})[device] = {
                "params": _count([each.parameters for each in own]),
                "macs": _count([each.macs for each in own]),
                "flops": _count([each.work_flop for each in own]),
                "functionalLayerCount": len(own) if own else None,
            }
    return {
        "mapping": mapping,
        "stageSummary": summary,
        "samplingDuration": row.window_s,
        "Mode": mode,
        "Device": machine,
        "Tegrastats": _telemetry(row),
        "ModelInfo": info,
    }


def _by_network(row: MultiRun) -> dict[str, list[StageRun]]:
    """The stages of each network by its name, numbered where it is there again."""
    names = _numbered([network.model for network in row.networks])
    found: dict[str, list[StageRun]] = {name: [] for name in names}
    for stage in row.stages:
        found[names[stage.network_number]].append(stage)
    return found


def _by_device(stages: Sequence[StageRun]) -> dict[str, StageRun]:
    names = _numbered([_called(stage.device) for stage in stages])
    return dict(zip(names, stages, strict=True))


def _numbered(names: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def _called(device: str) -> str:
    return "cuda" if device == "gpu" else device


def _layers(row: MultiRun, stage: StageRun, scores: Sequence[ModelScore]) -> list[LayerScore]:
    """The layers of a stage's network that work or move; empty without its score."""
    network = row.networks[stage.network_number]
    wanted = (network.model_hash, network.precision, network.batch, network.dimensions)
    for score in scores:
        if (score.model_hash, score.precision, score.batch, score.dimensions) == wanted:
            return [each for each in score.layers if not each.scope and is_functional(each)]
    return []


def _count(values: Sequence[int | None]) -> str | None:
    """``25.56 M``; None where there is none, or one is not known."""
    if not values or None in values:
        return None
    number = float(sum(value or 0 for value in values))
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{round(number / factor, 2):g} {prefix}"
    return f"{number:g}"


def _telemetry(row: MultiRun) -> dict[str, Any]:
    by_name = {each.name: each for each in row.telemetry}
    cpus = sorted(int(m[1]) for name in by_name if (m := _CPU_NUMBER.fullmatch(name)))
    ram, swap = by_name.get("memory_bytes"), by_name.get("swap_bytes")
    at_work = row.conditions.engines
    found: dict[str, Any] = {
        "RAM": None if ram is None else round(ram.mean / _MIB, 4),
        "SWAP": None if swap is None else round(swap.mean / _MIB, 4),
        "CPU": {
            "Utilization": _several([by_name.get(f"cpu{cpu}_share") for cpu in cpus], 1e2),
            "Frequencies": _several([by_name.get(f"cpu{cpu}_hz") for cpu in cpus], 1e-6),
        },
        "EMC_FREQ": _one(by_name, "memory"),
        "GR3D_FREQ": _one(by_name, "gpu"),
        **{
            name: None if at_work is None else "on" if name in at_work else "off"
            for name in _ENGINES
        },
        "APE": None,
    }
    for name, each in by_name.items():
        zone, is_zone, _ = name.partition("_temperature_c")
        if is_zone:
            found[f"{_zone(zone)} Temperature"] = round(each.mean, 4)
    for rail in row.energy.rails if row.energy else ():
        mean_mw = None
        if rail.energy_j is not None and row.energy is not None:
            mean_mw = round(1e3 * rail.energy_j / row.energy.window_s, 4)
        part = _PARTS.get(rail.rail, rail.rail.removeprefix("VDD_").replace("_", " "))
        found[f"{part} Power"] = mean_mw
    return found


def _zone(zone: str) -> str:
    """``cpu-thermal`` → CPU, ``soc2-thermal`` → SOC 2, ``tj-thermal`` → Tjunction."""
    part = re.sub(r"[-_]therm(al)?$", "", zone, flags=re.IGNORECASE)
    soc = _SOC.fullmatch(part.lower())
    return f"SOC {soc[1]}" if soc else _PARTS.get(part, part.upper())


def _one(by_name: dict[str, Reading], part: str) -> dict[str, Any]:
    return {
        "Utilization": _three(by_name.get(f"{part}_share"), 1e2),
        "Frequencies": _three(by_name.get(f"{part}_hz"), 1e-6),
    }


def _three(each: Reading | None, factor: float) -> dict[str, float | None]:
    values = (None, None, None) if each is None else (each.low, each.high, each.mean)
    scaled = [None if value is None else round(value * factor, 2) for value in values]
    return dict(zip(("min", "max", "avg"), scaled, strict=True))


def _several(found: Sequence[Reading | None], factor: float) -> dict[str, list[float | None]]:
    """Of all CPUs: a list each."""
    each = [_three(reading, factor) for reading in found]
    return {name: [one[name] for one in each] for name in ("min", "max", "avg")}
