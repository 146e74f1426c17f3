"""Mappings of several networks: what a person writes, which device runs which stage."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import InputError, UsageError
from mansard.core.storage.documents import read_json

MOST_LOADABLES = 16  # of a DLA core; NVIDIA, TensorRT Developer Guide, "DLA Limitations"
# How the option of a row begins that says where an engine has the nodes of one network.
PLACEMENT_OF = "dla_placement of "
_CPU, _WITH_GPU = "cpu", "gpu+"
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def device_cpus(device: str, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs of a device, or that feed it; ``cpus``: all CPUs of the mode.

    ``cpu:0-3`` and ``cpu:0,2`` name CPUs by their numbers. Raises UsageError for an unknown
    device, and for CPUs that are offline in the mode.
    """
    kind, _, numbers = device.partition(":")
    if not numbers:
        if kind not in {_CPU, "gpu"} and not dla_of(device):
            raise UsageError(
                f"unknown device {device!r}", fix="use gpu, dla0, dla1, cpu or cpu:0-3"
            )
        return cpus
    chosen: list[int] = []
    for part in numbers.split(",") if kind == _CPU else [""]:
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise UsageError(f"device {device!r} names no CPUs", fix="write cpu:0-3")
        chosen += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    lacking = sorted(set(chosen) - set(cpus))
    if lacking or not chosen:
        raise UsageError(
            f"device {device!r}: there is no CPU {lacking[0] if lacking else numbers} in this mode",
            fix=f"the mode has CPUs {', '.join(map(str, cpus))}",
        )
    return tuple(sorted(set(chosen)))


def is_cpu(device: str) -> bool:
    """Whether a device is CPUs, which run in the host's memory."""
    return device.partition(":")[0] == _CPU


def is_dla(device: str) -> bool:
    """Whether a device is a DLA core: ``dla0``, ``dla1``."""
    return device.startswith("dla") and device[3:].isdecimal()


def dla_of(device: str) -> str:
    """The DLA core that is a device, or that an engine of ``gpu+dla0`` runs on; "" without one."""
    core = device.removeprefix(_WITH_GPU)
    return core if is_dla(core) else ""


class StagePlace(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a network."""

    device: str = ""  # "gpu", "dla0", "cpu", "cpu:0-3"; "": the GPU where there is one, else "cpu"
    end: int | None = None  # its last node, by LayerScore.index; None: the network's
    # Of "gpu+dla0": the first and the last node, or None for the network's, of each stretch that
    # the DLA runs; the GPU runs the others.
    on_dla: tuple[tuple[int, int | None], ...] = ()


class MappedNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network in stages; a mapping may contain the same network twice."""

    model: str  # an ONNX file, or the name of a network of the zoo
    stages: tuple[StagePlace, ...] = (StagePlace(),)


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """Networks that run concurrently, and where."""

    networks: tuple[MappedNetwork, ...]
    # In step: (network, stage) in the order in which they begin, each once. Empty: not in step.
    turns: tuple[tuple[int, int], ...] = ()
    has_rounds: bool = True  # as that of MultiTrial
    beside: str = ""  # what else runs meanwhile, as a row calls it: "a solver"


_AGAIN = re.compile(r"#[0-9]+$")  # behind the name of a network that is in a mapping twice
_REPEATED = "a network that runs twice has #2 behind its name the second time"
_MOST_BYTES = 1 << 26  # thousands of mappings of ten networks
_CUDA = "cuda"  # NN-Profiler's name of the GPU


def read_mappings(path: Path) -> tuple[Mapping, ...]:
    """The mappings of a JSON file: one, or a list of them.

    A mapping has, for each network, the last node of each stage and its device: ``{"resnet50":
    {"57": "gpu", "122": "dla0"}, "alexnet": {"22": "cpu"}}``, with ``#2`` after the name of a
    network that occurs again. NN-Profiler's files contain a mapping as ``mapping``. Raises
    InputError and StorageError.
    """
    content = read_json(path, "mappings", most_bytes=_MOST_BYTES, fix=_REPEATED)
    several = content if isinstance(content, list) else [content]
    if not several:
        raise InputError("it holds no mapping", where=str(path))
    return tuple(_mapping(mapping, path) for mapping in several)


def _mapping(content: Any, path: Path) -> Mapping:
    inner = content.get("mapping", content) if isinstance(content, dict) else content
    try:
        stages = msgspec.convert(inner, dict[str, dict[str, str]])
    except msgspec.ValidationError as error:
        raise InputError(
            f"this is not a mapping: {error}",
            where=str(path),
            fix='write {"resnet50": {"57": "gpu", "122": "dla0"}}: the last node of each stage',
        ) from error
    return Mapping(
        networks=tuple(
            MappedNetwork(model=_AGAIN.sub("", name), stages=_stages(name, devices, path))
            for name, devices in stages.items()
        )
    )


def _stages(name: str, devices: dict[str, str], path: Path) -> tuple[StagePlace, ...]:
    wrong = [end for end in devices if not end.isdecimal() or len(end) > 9]
    if wrong or not devices:
        what = f"{wrong[0]!r} is not a number of a node" if wrong else "there is no stage"
        raise InputError(f"{name}: {what}", where=str(path))
    ends = sorted(devices, key=int)
    return tuple(
        StagePlace(
            device="gpu" if devices[end] == _CUDA else devices[end],
            end=None if end is ends[-1] else int(end),
        )
        for end in ends
    )


def with_device(mapping: Mapping, device: str) -> Mapping:
    """``mapping`` with ``device`` where it names none."""
    networks = [
        msgspec.structs.replace(
            network,
            stages=tuple(
                stage if stage.device else msgspec.structs.replace(stage, device=device)
                for stage in network.stages
            ),
        )
        for network in mapping.networks
    ]
    return msgspec.structs.replace(mapping, networks=tuple(networks))


def in_one_engine(mapping: Mapping) -> Mapping:
    """``mapping`` with one engine for each network that has a stage on a DLA core and others.

    The engine changes the device inside it. Such a network takes its turn where its first stage had
    it, and waits for no other network after that. Raises UsageError for stages that no engine has
    together: on CPUs, and on two DLA cores.
    """
    networks = tuple(map(_in_one_engine, mapping.networks))
    turns = tuple(
        (network, stage)
        for network, stage in mapping.turns
        if not 0 <= network < len(networks) or stage < len(networks[network].stages)
    )
    return msgspec.structs.replace(mapping, networks=networks, turns=turns)


def _in_one_engine(network: MappedNetwork) -> MappedNetwork:
    devices = list(dict.fromkeys(stage.device for stage in network.stages))
    cores = [device for device in devices if is_dla(device)]
    if not cores or len(network.stages) < 2:
        return network
    if on_cpu := [device for device in devices if is_cpu(device)]:
        raise UsageError(
            f"{network.model}: a stage on {on_cpu[0]} cannot be part of an engine",
            fix="map it to the GPU and one DLA core, or leave --one-engine out",
        )
    if len(cores) > 1:
        raise UsageError(
            f"{network.model}: an engine has one DLA core, and its stages are on "
            f"{' and '.join(cores)}",
            fix="map them to one core, or leave --one-engine out",
        )
    if len(devices) == 1:
        return msgspec.structs.replace(network, stages=(StagePlace(device=cores[0]),))
    stretches, first = list[tuple[int, int | None]](), 0
    for stage in network.stages:
        if is_dla(stage.device):
            stretches.append((first, stage.end))
        first = (stage.end or 0) + 1
    place = StagePlace(device=f"{_WITH_GPU}{cores[0]}", on_dla=tuple(stretches))
    return msgspec.structs.replace(network, stages=(place,))


def check_mapping(mapping: Mapping) -> None:
    """Raise UsageError for a mapping that cannot run: no network, a full DLA, circular turns."""
    if not mapping.networks or not all(network.stages for network in mapping.networks):
        raise UsageError("a mapping has no network or no stage", fix="name a network")
    devices = Counter(
        dla_of(stage.device) for network in mapping.networks for stage in network.stages
    )
    for network in mapping.networks:
        if any(stage.end is None for stage in network.stages[:-1]):
            raise UsageError(f"a stage of {network.model} has no last node", fix="name it")
    for device, n_stages in devices.items():
        if is_dla(device) and n_stages > MOST_LOADABLES:
            raise UsageError(
                f"{n_stages} stages on {device}: a DLA core holds {MOST_LOADABLES} loadables",
                fix="map some of them to another device",
            )
    steps = [
        (number, stage)
        for number, network in enumerate(mapping.networks)
        for stage in range(len(network.stages))
    ]
    if mapping.turns and sorted(mapping.turns) != steps:
        raise UsageError(
            "the turns of a mapping are not its stages, each once", fix="list each of them once"
        )
    for number in range(len(mapping.networks)) if mapping.turns else ():
        turns = [stage for network, stage in mapping.turns if network == number]
        if turns != sorted(turns):
            raise UsageError(
                f"the stages of network {number} take their turns in another order than they run",
                fix="list them in the order in which they run",
            )
