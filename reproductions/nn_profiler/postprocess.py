"""What NN-Profiler's post-processing makes of a raw file of several networks, made again.

https://github.com/Varatheepan/NN-Profiler, multi_network_stats/postProcessMultinetDB.py: it reads
the first line of each file of ``Multinet/Mode<N>``, a JSON object with ``mapping``,
``stageSummary`` with every duration, ``power`` with every reading of tegrastats, and
``samplingDuration``. Lists become means, or least, greatest and mean; of words the first stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from statistics import fmean
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import InputError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.storage.files import read_whole

_FIRST = ("RAM", "SWAP", "CPU", "EMC_FREQ", "GR3D_FREQ")
# The readings that the script asks each file of a device for; it stops where one is missing.
PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Orin": (
            *(*_FIRST, "NVDEC", "NVJPG", "NVJPG1", "VIC", "OFA", "APE"),
            *("CPU Temperature", "SOC 2 Temperature", "SOC 0 Temperature", "GPU Temperature"),
            *("Tjunction Temperature", "SOC 1 Temperature"),
            *("IN Power", "GPU CPU CV Power", "SOC Power"),
        ),
        "Xavier": (
            *(*_FIRST, "VIC", "APE", "Aux Temperature", "CPU Temperature", "Thermal sensor"),
            *("Tboard Temperature", "AO Temperature", "GPU Temperature", "Tdiode Temperature"),
            *("PMIC Temperature", "GPU Power", "CPU Power", "SOC Power", "CV Power"),
            *("VDDRQ Power", "SYS5V Power"),
        ),
        "Tx2": (
            *(*_FIRST, "APE", "PLL", "MCPU", "PMIC", "Tboard", "GPU", "BCPU", "Thermal", "Tdiode"),
            *("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI", "VDD_IN", "VDD_SYS_CPU"),
            "VDD_SYS_DDR",
        ),
    }
)
_NAME = re.compile(r"[^_/]+_(Map(\d{1,9})_.+\.json)", re.ASCII)


class _Stage(msgspec.Struct):
    """A stage of a raw file; counts of the profiler are texts, or null where it failed."""

    infCount: int  # noqa: N815 - their key
    infDurations: list[float]  # noqa: N815
    transferDurations: list[float]  # noqa: N815
    params: str | None
    macs: str
    flops: str | None
    functionalLayerCount: int | None  # noqa: N815


class _Raw(msgspec.Struct):
    mapping: dict[str, dict[str, str]]
    stageSummary: dict[str, dict[str, _Stage]]  # noqa: N815
    power: dict[str, Any]
    samplingDuration: float  # noqa: N815


def processed(content: bytes, mode: int, device: str, where: str) -> dict[str, Any]:
    """A raw file, its first line, as the script writes it; raises InputError."""
    try:
        raw = msgspec.json.decode(content.split(b"\n", 1)[0], type=_Raw)
        readings = {
            name: _summary(name, raw.power[name])
            for name in PARAMETERS.get(device, PARAMETERS["Orin"])
        }
    except KeyError as error:
        raise InputError(f"has no reading {error}", where=where) from error
    except (*DECODE_ERRORS, ZeroDivisionError) as error:
        what = f"is not a raw file of NN-Profiler: {error}"
        raise InputError(
            what, where=where, fix="its lists are of numbers, and not empty"
        ) from error
    stages = {
        network: {
            device: {
                "infCount": stage.infCount,
                "avgInfTime": _mean(stage.infDurations),
                "avgTransferTime": _mean(stage.transferDurations),
            }
            for device, stage in by_device.items()
        }
        for network, by_device in raw.stageSummary.items()
    }
    info = {
        network: {
            device: {
                "params": stage.params,
                "macs": stage.macs.split("MACs")[0],
                "flops": stage.flops,
                "functionalLayerCount": stage.functionalLayerCount,
            }
            for device, stage in by_device.items()
        }
        for network, by_device in raw.stageSummary.items()
    }
    return {
        "mapping": raw.mapping,
        "stageSummary": stages,
        "samplingDuration": raw.samplingDuration,
        "Mode": mode,
        "Device": device,
        "Tegrastats": readings,
        "ModelInfo": info,
    }


def processed_name(name: str, mode: int) -> str:
    """What the script calls the file that it makes of a raw one: ``Mode0_Map1_….json``."""
    match = _NAME.fullmatch(PurePosixPath(name).name)
    if match is None:
        raise InputError("has no Map<number> in its name", where=name)
    return f"Mode{mode}_{match[1]}"


def read_raw(folder: Path, mode: int, device: str) -> dict[str, bytes]:
    """The files that the script makes of ``folder``/Mode<N>, by name, in the order of the maps."""
    paths = sorted((folder / f"Mode{mode}").glob("*_Map*_*.json"))
    if not paths:
        raise InputError(f"holds no Mode{mode} with raw files", where=str(folder))
    files = {}
    for path in paths:
        content = processed(read_whole(path), mode, device, str(path))
        files[processed_name(path.name, mode)] = msgspec.json.encode(content)
    return files


def _mean(durations: Sequence[float]) -> float:
    return fmean(durations) if durations else -1  # as the script has it


def _summary(name: str, readings: Any) -> Any:
    if isinstance(readings, list):
        if readings and isinstance(readings[0], str):
            return readings[0]
        return round(sum(readings) / len(readings), 4)
    if name == "CPU":
        return {key: _of_columns(values) for key, values in readings.items()}
    return {key: _three(values) for key, values in readings.items()}


def _three(values: Sequence[float]) -> dict[str, float]:
    return {
        "min": round(min(values), 2),
        "max": round(max(values), 2),
        "avg": round(sum(values) / len(values), 2),
    }


def _of_columns(rows: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """Least, greatest and mean of each CPU; a row is a reading."""
    columns = [_three(column) for column in zip(*rows, strict=True)]
    return {name: [column[name] for column in columns] for name in ("min", "max", "avg")}
