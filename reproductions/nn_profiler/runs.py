"""Runs of several networks at once, as files in the layout of NN-Profiler: raw, and processed.

https://github.com/Varatheepan/NN-Profiler, MappingDBGenerator.py writes raw files,
multi_network_stats/postProcessMultinetDB.py processes them (``postprocess``); README.md shows one
of an Orin Nano. Times are seconds, clocks MHz, use per cent, memory MiB, power mW, temperatures °C;
what is not known is null, or the word "unknown" where the script would stop. Where two stages of a
network are on one device, or a network is there twice, the second has ``#2`` behind the name:
NN-Profiler writes one over the other. ``gpu`` is called ``cuda``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from math import ceil
from typing import Any

import msgspec

from mansard.analytics.data.dataset import Dataset
from mansard.core.errors import UsageError
from mansard.core.records import LayerScore, ModelScore, MultiRun, Reading, StageRun
from mansard.core.text import natural_key
from mansard.estimator import is_functional
from reproductions.nn_profiler.modules import functional_layers
from reproductions.nn_profiler.postprocess import PARAMETERS, processed, processed_name

UNKNOWN = "unknown"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_ENGINES = ("NVDEC", "NVJPG", "NVJPG1", "VIC", "OFA")
_MIB = 2**20
_MOST_ROWS = 10_000  # of values that stand for readings
# Names that differ from those of zones and rails by more than their spelling.
_PARTS = {"tj": "Tjunction", "VDD_CPU_GPU_CV": "GPU CPU CV"}
_CPU_NUMBER = re.compile(r"cpu([0-9]+)_share")
_SOC = re.compile(r"soc([0-9])")


def runs_of(dataset: Dataset) -> list[tuple[str, str, MultiRun]]:
    """The rows of all runs, each with its machine and mode."""
    manifests = {manifest.run_id: manifest for manifest in dataset.all_manifests}
    return [
        (manifest.machine.name, manifest.mode_read_back.name, row)
        for row in dataset.multi
        for manifest in (manifests[row.run_id],)
    ]


def raw_files(
    rows: Sequence[tuple[str, str, MultiRun]],
    scores: Sequence[ModelScore],
    numbers: Mapping[str, int],
) -> dict[str, bytes]:
    """The content of each raw file by its name, of ``rows``: machine, mode, row. Failed have none.

    ``numbers``: of each mode. ``scores``: of the whole networks, for parameters and multiply-adds.
    """
    files: dict[str, bytes] = {}
    sets: dict[tuple[str, ...], int] = {}
    counts: Counter[str] = Counter()
    several = len({machine for machine, _, _ in rows}) > 1
    for machine, mode, row in sorted(
        rows, key=lambda each: (each[2].started_utc, each[2].trial_id)
    ):
        if row.failure is not None:
            continue
        folder = f"{_UNSAFE.sub('_', machine)}/" if several else ""
        folder += f"Multinet/Mode{numbers[mode]}"
        counts[folder] += 1
        names = tuple(network.model for network in row.networks)
        name = (
            f"{'SingleNet' if len(names) == 1 else 'MultiNet'}_Map{counts[folder]}_nm_{len(names)}"
            f"_set_{sets.setdefault(names, len(sets) + 1)}_class{_class(row)}.json"
        )
        content = _run(row, scores, PARAMETERS[family(machine) or "Orin"])
        files[f"{folder}/{name}"] = msgspec.json.encode(content) + b"\n"  # one line: all is read
    return files


def processed_files(
    raw: Mapping[str, bytes], rows: Sequence[tuple[str, str, MultiRun]]
) -> dict[str, bytes]:
    """What the post-processing makes of ``raw``, by name; the machines are those of ``rows``."""
    machines = {_UNSAFE.sub("_", machine): machine for machine, _, _ in rows}
    files = {}
    for name, content in raw.items():
        folder, _, file = name.rpartition("/")
        root, _, mode = folder.rpartition("/Mode")
        machine = (
            machines[root.partition("/")[0]] if len(machines) > 1 else next(iter(machines.values()))
        )
        document = processed(content, int(mode), family(machine) or machine, name)
        place = f"{root}/Processed/Mode{mode}/{processed_name(file, int(mode))}"
        files[place] = msgspec.json.format(msgspec.json.encode(document))
    return files


def family(machine: str) -> str | None:
    """What NN-Profiler calls a machine: Orin, Xavier or Tx2; None of any other."""
    return next((name for name in PARAMETERS if name.lower() in machine.lower()), None)


def mode_numbers(modes: Iterable[str], given: Mapping[str, int]) -> dict[str, int]:
    """A number for each mode: that which is given, else the next free one in the order of names.

    NN-Profiler calls modes by nvpmodel's numbers. They differ between boards and releases, so rows
    do not have them. Raises UsageError for one number of two modes.
    """
    numbers = {mode: given[mode] for mode in dict.fromkeys(modes) if mode in given}
    twice = [mode for mode, count in Counter(numbers.values()).items() if count > 1]
    if twice:
        raise UsageError(f"two modes have the number {twice[0]}", fix="give each its own")
    free = (number for number in count() if number not in numbers.values())
    rest = sorted(set(modes) - set(numbers), key=natural_key)
    return numbers | dict(zip(rest, free, strict=False))


def _class(row: MultiRun) -> str:
    """A: one network; B: several, all on the GPU; C: whole networks; D: one or more are split."""
    if len(row.networks) == 1:
        return "A"
    if any(stage.n_stages > 1 for stage in row.stages):
        return "D"
    return "B" if all(stage.device == "gpu" for stage in row.stages) else "C"


def _run(row: MultiRun, scores: Sequence[ModelScore], wanted: Sequence[str]) -> dict[str, Any]:
    mapping: dict[str, dict[str, str]] = {}
    summary: dict[str, dict[str, Any]] = {}
    for network, stages in _by_network(row).items():
        layers = _layers(row, stages[0], scores)
        model = row.networks[stages[0].network_number].model
        for device, stage in _by_device(stages).items():
            own = [each for each in layers if not stage.nodes or each.index in stage.nodes]
            last = max((each.index for each in own), default=max(stage.nodes, default=0))
            mapping.setdefault(network, {})[str(last)] = _called(stage.device)
            is_whole = stage.n_stages == 1
            summary.setdefault(network, {})[device] = {
                "infCount": stage.n_runs,
                "infDurations": [stage.inference_s / stage.n_runs] if stage.n_runs else [],
                "transferDurations": [stage.transfer_s / stage.n_runs] if stage.n_runs else [],
                "macs": f"{_count([each.macs for each in own]) or UNKNOWN}MACs",
                "params": _count([each.parameters for each in own]),
                "flops": _count([each.work_flop for each in own]),
                "functionalLayerCount": functional_layers(model, own).theirs if is_whole else None,
            }
    return {
        "mapping": mapping,
        "stageSummary": summary,
        "power": {**{name: [UNKNOWN] for name in wanted}, **_telemetry(row, wanted)},
        "samplingDuration": row.window_s,
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


def _telemetry(row: MultiRun, wanted: Sequence[str]) -> dict[str, Any]:
    """Readings by NN-Profiler's names, as lists; those that are not known are not there."""
    by_name = {each.name: each for each in row.telemetry}
    readings = _use(by_name)
    if row.conditions.engines is not None:
        at_work = row.conditions.engines
        readings |= {name: ["on" if name in at_work else "off"] for name in _ENGINES}
    for name, each in by_name.items():
        zone, is_zone, _ = name.partition("_temperature_c")
        if is_zone:
            readings[f"{_zone(zone)} Temperature"] = [round(each.mean, 4)]
    for rail in row.energy.rails if row.energy else ():
        if rail.energy_j is not None and row.energy is not None:
            mean_mw = round(1e3 * rail.energy_j / row.energy.window_s, 4)
            part = _PARTS.get(rail.rail, rail.rail.removeprefix("VDD_").replace("_", " "))
            readings[rail.rail if rail.rail in wanted else f"{part} Power"] = [mean_mw]
    spelled = {name.lower(): name for name in wanted}
    return {spelled.get(name.lower(), name): values for name, values in readings.items()}


def _use(by_name: Mapping[str, Reading]) -> dict[str, Any]:
    """Memory in MiB; use in per cent and clocks in MHz of the CPUs, the memory and the GPU."""
    readings: dict[str, Any] = {}
    for name, source in (("RAM", "memory_bytes"), ("SWAP", "swap_bytes")):
        if source in by_name:
            readings[name] = [round(by_name[source].mean / _MIB, 4)]
    cpus = sorted(int(m[1]) for name in by_name if (m := _CPU_NUMBER.fullmatch(name)))
    parts = {
        "CPU": [f"cpu{cpu}" for cpu in cpus],
        "EMC_FREQ": ["memory"],
        "GR3D_FREQ": ["gpu"],
    }
    for name, names in parts.items():
        known = [f"{part}_{what}" in by_name for part in names for what in ("share", "hz")]
        if not known or not all(known):
            continue  # the script asks for both
        for key, what, factor in (("Utilization", "share", 1e2), ("Frequencies", "hz", 1e-6)):
            rows = _rows([by_name[f"{part}_{what}"] for part in names], factor)
            values = rows if name == "CPU" else [value for (value,) in rows]
            readings.setdefault(name, {})[key] = values
    return readings


def _zone(zone: str) -> str:
    """``cpu-thermal`` → CPU, ``soc2-thermal`` → SOC 2, ``tj-thermal`` → Tjunction."""
    part = re.sub(r"[-_]therm(al)?$", "", zone, flags=re.IGNORECASE)
    soc = _SOC.fullmatch(part.lower())
    return f"SOC {soc[1]}" if soc else _PARTS.get(part, part.upper())


def _rows(readings: Sequence[Reading], factor: float) -> list[list[float]]:
    """Values, a row for each time, with the least, greatest and mean of each of ``readings``.

    Single readings are not kept. These have the three numbers that the script takes from them.
    """
    wanted = [_least_rows(each) for each in readings]
    columns = [_series(each, max(wanted)) for each in readings]
    return [[value * factor for value in row] for row in zip(*columns, strict=True)]


def _least_rows(reading: Reading) -> int:
    """How many values it takes to have this least, greatest and mean."""
    nearest = min(reading.mean - reading.low, reading.high - reading.mean)
    if reading.high == reading.low:
        return 3
    share = nearest / (reading.high - reading.low)
    return min(max(3, ceil(1 / share) + 1), _MOST_ROWS) if share > 0 else _MOST_ROWS


def _series(reading: Reading, n: int) -> list[float]:
    rest = (n * reading.mean - reading.low - reading.high) / (n - 2)
    return [reading.low, reading.high, *[rest] * (n - 2)]
