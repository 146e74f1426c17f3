"""A problem of scheduling from the files that HaX-CoNN's scripts write, and what its logs print.

The formats are those of its artifact (Dagli, Belviranli, PPoPP 2024, repository
ismetdagli/HaX-CoNN, ``scripts/`` and ``output_expected/``). A file is known by the end of its name.
Times are in milliseconds. Those on the DLA are differences of whole engines: the engine that
changes to the DLA at layer L spends there what the layers from L on take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from mansard.api.deciding.haxconn_logs import (
    DLA,
    KINDS,
    LAYERS,
    TRANSITIONS,
    PublishedRound,
    SourceFile,
    read_logs,
    read_table,
)
from mansard.core.errors import InputError, UsageError
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.core.storage.files import storage_errors
from mansard.core.text import first_of, printable

_GROUP = re.compile(r"(\d{1,6})-(\d{1,6})", re.ASCII)
_ENGINE = re.compile(r"(.+)_(gpu|dla)_(?:mark|transition)_at_(-?\d{1,6})", re.ASCII | re.DOTALL)
_WHOLE = -1  # "layer" of an engine without a mark or a transition
_NEAR = 1  # layers between a mark and the start of its group: they count from the other end
_PLAIN_MS = 0.01  # costs that are all multiples of it were typed, not measured
_UNITS = (0.3, 3.0)  # of the groups' sum over the whole engine: beyond, units differ
_MOST_SEGMENTS = 16  # loadables of a DLA core, as for problems made of runs

_Ms = Annotated[float, Meta(ge=0, lt=1e9)]
_Signed = Annotated[float, Meta(gt=-1e9, lt=1e9)]


class _Share(msgspec.Struct):
    total_gpu_time_ms: _Ms | None = None
    total_dla_time_ms: _Ms | None = None
    layer_diff: _Signed | None = None


class _Layers(msgspec.Struct):
    gpu: _Share | None = None
    dla: _Share | None = None


class _Mark(msgspec.Struct):
    transition_cost: _Signed
    mean_time: _Ms | None = None


class _Engine(msgspec.Struct):
    total_time: _Ms


_E = TypeVar("_E", _Mark, _Engine)


class HaxconnFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and the files that it was made of."""

    problem: Problem
    files: tuple[SourceFile, ...]
    rounds: tuple[PublishedRound, ...]


def read_haxconn(paths: Sequence[Path]) -> HaxconnFiles:
    """The problem of ``paths``: each folder is a network, and so are all single files together.

    Raises UsageError where a path is not such a file or folder, InputError with one line for
    whatever a file may hold, and StorageError.
    """
    networks, files, notes = list[NetworkChain](), list[SourceFile](), list[str]()
    rounds: list[PublishedRound] = []
    for group in _groups_of_files(paths):
        named = [network.name for network in networks]
        reading, others = _Reading(group, named), read_logs(group)
        networks += reading.networks
        files += [*reading.files, *others.files]
        rounds += others.rounds
        notes += reading.notes
    if not networks:
        what = f"none of them is a {LAYERS}, which has the groups of layers and their times"
        raise InputError(what, where=first_of([str(path) for path in paths], 3))
    notes += [
        "times of HaX-CoNN's files: published, without repetitions or conditions",
        "no contention: these files hold no PCCS parameters and no demand of a group; "
        "[pccs.gpu], [pccs.dla0] and demand of a saved problem add them",
    ]
    problem = Problem(
        accelerators=(
            Accelerator(name="gpu", kind="gpu"),
            Accelerator(name="dla0", kind="dla", max_segments=_MOST_SEGMENTS),
        ),
        networks=tuple(networks),
        idle_w=None,
        notes=tuple(dict.fromkeys(notes)),
        unknown={"idle_w": "HaX-CoNN's files hold no power"},
    )
    return HaxconnFiles(problem=problem, files=tuple(files), rounds=tuple(rounds))


def _groups_of_files(paths: Sequence[Path]) -> Iterator[dict[str, Path]]:
    """The files by their kind: of each folder, then of those that were named one by one."""
    single: list[Path] = []
    for path in paths:
        if path.is_dir():
            with storage_errors(path):
                names = sorted(path.iterdir())
            files = _by_kind([name for name in names if _kind(name)])
            if not files:
                what = f"holds none of HaX-CoNN's files ({', '.join(KINDS)})"
                raise UsageError(what, where=str(path), fix="name its output folder")
            yield files
        elif not path.exists():
            raise UsageError("is not there", where=str(path), fix="name a folder or its files")
        elif _kind(path) is None:
            what = "is not one of HaX-CoNN's files"
            raise UsageError(what, where=str(path), fix=f"their names end with {', '.join(KINDS)}")
        else:
            single.append(path)
    if single:
        yield _by_kind(single)


def _kind(path: Path) -> str | None:
    """The kind of a file: its name is the plain one, or ends with it after a mark such as _."""
    for kind in KINDS:
        before = path.name.removesuffix(kind)
        if before != path.name and not (before and before[-1].isalnum()):
            return kind
    return None


def _by_kind(paths: Sequence[Path]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in paths:
        kind = _kind(path) or ""
        if kind in files:
            fix = "put the files of each network into a folder of their own"
            raise UsageError(f"two are a {kind}: {files[kind]} and {path}", fix=fix)
        files[kind] = path
    return files


class _Reading:
    """The files of one network, and what is said of them."""

    def __init__(self, files: Mapping[str, Path], taken: Sequence[str]) -> None:
        self._paths, self._taken = files, taken
        self.networks: list[NetworkChain] = []
        self.files: list[SourceFile] = []
        self.notes: list[str] = []
        if LAYERS in files:
            self.networks.append(self._network())

    def _say(self, kind: str, holds: str, use: str) -> None:
        shown = printable(self._paths[kind].name)
        self.files.append(SourceFile(file=shown, holds=holds, use=use))

    def _network(self) -> NetworkChain:
        path = self._paths[LAYERS]
        layers = read_table(path, "groups of layers", dict[str, _Layers])
        starts, gpu_ms, own_dla_ms = _groups(layers, path)
        marks, of_marks = self._engines(TRANSITIONS, _Mark)
        engines, of_engines = self._engines(DLA, _Engine)
        name = of_marks or of_engines or "network"
        self._say(LAYERS, f"{len(starts)} groups of {name}", _times_use(gpu_ms, own_dla_ms))
        end_of_all = int(next(reversed(layers)).partition("-")[2]) + 1
        if any(time is not None for time in own_dla_ms):
            boundaries, dla_ms = starts, own_dla_ms
            if engines:
                use = f"nothing: {LAYERS} has times on the DLA"
                self._say(DLA, f"{len(engines)} engines", use)
        else:
            boundaries, dla_ms = self._dla_times(starts, engines)
        leave = self._leave(starts, marks)
        self._doubt(marks, sum(time or 0 for time in gpu_ms))
        groups = []
        for at, (begin, end) in enumerate(pairwise([*boundaries, end_of_all])):
            inside = [n for n, start in enumerate(starts) if begin <= start < end]
            times = {
                "gpu": _sum([gpu_ms[n] for n in inside]),
                "dla0": dla_ms[at],
            }
            groups.append(
                LayerGroup(
                    name=f"{begin}-{end - 1}",
                    time_s={where: ms / 1e3 for where, ms in times.items() if ms},
                    leave_s=leave.get(end, {}),
                    enter_s=dict.fromkeys(("gpu", "dla0"), 0.0),
                    source="published",
                )
            )
        number = self._taken.count(name) + sum(t.startswith(f"{name} #") for t in self._taken)
        shown = name if not number else f"{name} #{number + 1}"
        return NetworkChain(name=shown, groups=tuple(groups), model=name)

    def _engines(self, kind: str, entry: type[_E]) -> tuple[dict[tuple[str, int], _E], str]:
        """The entries of a file by accelerator and layer, and the network that they are of."""
        if kind not in self._paths:
            missing = "changes of accelerator" if kind == TRANSITIONS else "times on the DLA"
            self.notes.append(f"no {kind}: {missing} are unknown, and not offered")
            return {}, ""
        path = self._paths[kind]
        entries: dict[tuple[str, int], _E] = {}
        names = set()
        for key, value in read_table(path, "engines", dict[str, entry]).items():  # type: ignore[valid-type]
            match = _ENGINE.fullmatch(key)
            if match is None:
                what = f"{key!r} does not name a network, gpu or dla, and the layer of a change"
                raise InputError(what, where=str(path), fix="write network_gpu_mark_at_10")
            names.add(match[1])
            entries[match[2], int(match[3])] = value
        if len(names) > 1:
            what = f"is of several networks: {first_of(sorted(names), 3)}"
            raise InputError(what, where=str(path), fix="give each network a file of its own")
        return entries, printable(next(iter(names), ""), 60)

    def _dla_times(
        self, starts: list[int], engines: Mapping[tuple[str, int], _Engine]
    ) -> tuple[list[int], list[float | None]]:
        """Where groups begin that have a time on the DLA, and these times in ms.

        Less is left on the DLA the later an engine changes to it. Of the engines the longest series
        that agrees with this counts; groups between the others are joined.
        """
        changes = {
            start: layer
            for begun, layer in sorted(engines)
            if begun == "gpu" and layer != _WHOLE and (start := _near(layer, starts)) is not None
        }
        left_ms = {start: engines["gpu", layer].total_time for start, layer in changes.items()}
        series = _longest_falling(left_ms)
        dropped = [str(layer) for start, layer in changes.items() if start not in series]
        if engines:
            self._say(
                DLA, f"{len(engines)} engines", f"times on the DLA behind {len(series)} changes"
            )
        if dropped:
            self.notes.append(
                f"{DLA}: engines that change at {first_of(dropped, 5)} spend less on the DLA than "
                "those of a later change, so their groups are joined (TensorRT 7 books the time of "
                "the DLA under another layer)"
            )
        if not series:
            if engines:
                self.notes.append(f"{DLA}: no engine changes to the DLA at a group and runs there")
            return starts, [None] * len(starts)
        after = [*(left_ms[layer] for layer in series), 0.0]
        dla_ms: list[float | None] = [here - there for here, there in pairwise(after)]
        if series[0] == starts[0]:
            return series, dla_ms
        first = f"{starts[0]}-{series[0] - 1}"
        self.notes.append(f"{DLA}: no engine runs all on the DLA, so {first} has no time there")
        return [starts[0], *series], [None, *dla_ms]

    def _leave(
        self, starts: Sequence[int], marks: Mapping[tuple[str, int], _Mark]
    ) -> dict[int, dict[str, float]]:
        """Seconds to leave an accelerator, by the layer that begins behind the change."""
        leave: dict[int, dict[str, float]] = {}
        strange = []
        for (accelerator, layer), mark in sorted(marks.items()):
            start = _near(layer, starts[1:])
            if start is not None:
                name = "dla0" if accelerator == "dla" else "gpu"
                leave.setdefault(start, {})[name] = max(mark.transition_cost, 0.0) / 1e3
            elif layer != _WHOLE:
                strange.append(str(layer))
        if strange:
            shown = first_of(strange, 5)
            self.notes.append(f"{TRANSITIONS}: no group begins near layer {shown}: not used")
        return leave

    def _doubt(self, marks: Mapping[tuple[str, int], _Mark], gpu_ms: float) -> None:
        """Say what is odd about costs of changes, and whether units agree."""
        if TRANSITIONS not in self._paths:
            return
        costs_ms: dict[str, list[float]] = {}
        for (accelerator, layer), mark in sorted(marks.items(), reverse=True):
            if layer != _WHOLE:
                costs_ms.setdefault(accelerator.upper(), []).append(mark.transition_cost)
        use = " and ".join(f"of leaving the {name}" for name in costs_ms)
        self._say(TRANSITIONS, f"{len(marks)} engines", f"costs {use}" if use else "none")
        if len(costs_ms) == 1:
            (known,) = costs_ms
            other = "DLA" if known == "GPU" else "GPU"
            self.notes.append(
                f"{TRANSITIONS}: one table, of leaving the {known}; what leaving the {other} costs "
                "is unknown, and not offered (HaX-CoNN's solver takes one table for both)"
            )
        for name, values in costs_ms.items():
            if len(values) > 1 and all(map(_is_round, values)):
                what = f"costs of leaving the {name} are whole multiples of 10 us: dummy data?"
                self.notes.append(f"{TRANSITIONS}: {what}")
        below = sum(cost < 0 for values in costs_ms.values() for cost in values)
        if below:
            self.notes.append(f"{TRANSITIONS}: {below} costs below 0 count as 0")
        whole = marks.get(("gpu", _WHOLE))
        if whole is None or not whole.mean_time or not gpu_ms:
            return
        if not _UNITS[0] < gpu_ms / whole.mean_time < _UNITS[1]:
            self.notes.append(
                f"units: the groups take {gpu_ms:.4g} ms on the GPU and the whole engine "
                f"{whole.mean_time:.4g}; both should be ms"
            )


def _groups(
    layers: Mapping[str, _Layers], path: Path
) -> tuple[list[int], list[float | None], list[float | None]]:
    """First layers of the groups, and their times in ms on the GPU and on the DLA."""
    starts, gpu_ms, dla_ms, end = list[int](), list[float | None](), list[float | None](), -1
    for key, entry in layers.items():
        match = _GROUP.fullmatch(key)
        if match is None or int(match[2]) < int(match[1]):
            raise InputError(
                f"{key!r} is not a group of layers", where=str(path), fix='write "0-9"'
            )
        if starts and int(match[1]) != end + 1:
            what = f"group {key} does not follow layer {end}"
            raise InputError(what, where=str(path), fix="list all groups, in the order of layers")
        starts.append(int(match[1]))
        end = int(match[2])
        gpu, dla = entry.gpu or _Share(), entry.dla or _Share()
        gpu_ms.append(gpu.total_gpu_time_ms or None)
        difference = max(dla.layer_diff or 0.0, 0.0)
        dla_ms.append(dla.total_dla_time_ms or difference or None)
        if not gpu_ms[-1] and not dla_ms[-1]:
            raise InputError(f"group {key} has no time above 0", where=str(path))
    return starts, gpu_ms, dla_ms


def _times_use(gpu_ms: Sequence[float | None], dla_ms: Sequence[float | None]) -> str:
    n_gpu, n_dla = (sum(time is not None for time in times) for times in (gpu_ms, dla_ms))
    return f"{n_gpu} times on the GPU, {n_dla} on the DLA"


def _near(layer: int, starts: Sequence[int]) -> int | None:
    """The start of a group that a mark at ``layer`` means, if there is one."""
    near = [start for start in starts if abs(start - layer) <= _NEAR]
    return min(near, key=lambda start: abs(start - layer), default=None)


def _is_round(cost_ms: float) -> bool:
    return abs(cost_ms / _PLAIN_MS - round(cost_ms / _PLAIN_MS)) < 1e-6


def _sum(times: Sequence[float | None]) -> float | None:
    return None if not times or None in times else sum(time or 0.0 for time in times)


def _longest_falling(values: Mapping[int, float]) -> list[int]:
    """The keys, ascending, of the longest series of positive values that fall.

    Of several the one with the largest sum: what a profiler books elsewhere is near 0.
    """
    best: list[list[int]] = []

    def rank(series: list[int]) -> tuple[int, float]:
        return len(series), sum(values[key] for key in series)

    for key in sorted(values):
        before = [series for series in best if values[series[-1]] > values[key]]
        if values[key] > 0:
            best.append([*max(before, key=rank, default=[]), key])
    return max(best, key=rank, default=[])
