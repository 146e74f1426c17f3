"""A network that trtexec runs: each pass is a run of the program, which times every query."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.formats.tensorrt import (
    CUDA_GRAPH,
    SPIN_WAIT,
    TRANSFERS,
    ExportedEngine,
    ExportedLayer,
    ExportedLayerTime,
    ExportedQuery,
)
from mansard.core.records import Copies, EngineBuild, Launching, LayerTime
from mansard.core.storage.files import read_whole
from mansard.core.storage.leftovers import temporary_folder
from mansard.inference.engines.tensorrt.layers import layer_times
from mansard.inference.engines.trtexec.program import (
    Printed,
    Program,
    quoted,
    shape_option,
)
from mansard.inference.plan import NetworkTrial

_START_S = 600.0  # at most: it reads the engine, and warms up
_WARM_UP_MS = 200  # what trtexec itself takes
_LONGEST_CALL_S = 600.0
_MOST_BYTES = 1 << 30  # of an export
_NO_INT64 = (10,)  # before it, engines take integers of 32 bits
# What the switches of trtexec are called among our options.
_SWITCHES = {TRANSFERS: "data_transfers", SPIN_WAIT: "spin_wait", CUDA_GRAPH: "cuda_graph"}
Kind = TypeVar("Kind")


class TrtexecNetwork:
    """An engine file and the inputs to feed it, for runs of trtexec."""

    def __init__(
        self,
        program: Program,
        trial: NetworkTrial,
        path: Path,
        build: EngineBuild,
        inputs: Mapping[str, Any],
    ) -> None:
        self._program, self._trial, self._path = program, trial, path
        self._held = contextlib.ExitStack()
        self._room = self._held.enter_context(temporary_folder())
        self._call_s = 0.0  # the longest that was seen
        self.launching: Launching = "enqueue"
        self.options: dict[str, str] = {"times": "of the GPU, between events of trtexec"}
        self._arguments = [
            f"--loadEngine={path}",
            f"--warmUp={_WARM_UP_MS}",
            "--duration=0",
            *self._fed(inputs, set(build.options.get("open", "").split(",")) - {""}),
            *self._switched(),
        ]
        if (core := build.options.get("dla_core")) is not None:
            self._arguments.append(f"--useDLACore={core}")
            self.options["dla_core"] = core

    def time_calls(self, n_calls: int) -> tuple[float, ...]:
        """Seconds of ``n_calls`` calls in a row, in one run of the program."""
        exported = self._room / "times.json"
        printed = self._run([f"--iterations={n_calls}", f"--exportTimes={exported}"], n_calls)
        self._take_options(printed)
        seconds = read_times(exported, self._trial.copies)[-n_calls:]
        if len(seconds) < n_calls:
            raise MeasurementError(f"trtexec timed {len(seconds)} of {n_calls} calls")
        self._call_s = max(self._call_s, *seconds)
        return seconds

    def time_layers(self, n_calls: int) -> tuple[LayerTime, ...]:
        """The layers, with their mean times over ``n_calls`` calls or more."""
        profile, listed = self._room / "profile.json", self._room / "layers.json"
        arguments = [
            f"--iterations={n_calls}",
            "--dumpProfile",
            f"--exportProfile={profile}",
            *self._program.optional("--separateProfileRun"),
            *self._program.optional(f"--exportLayerInfo={listed}"),
            *self._program.optional("--profilingVerbosity=detailed"),
        ]
        self._run(arguments, n_calls)
        return read_profile(profile, read_layers(listed) if listed.exists() else ())

    def close(self) -> None:
        """Remove the files of its inputs and exports."""
        self._held.close()

    def _run(self, arguments: list[str], n_calls: int) -> Printed:
        timeout_s = _START_S + 2 * n_calls * (self._call_s or _LONGEST_CALL_S)
        return self._program.run([*self._arguments, *arguments], timeout_s, self._path.name)

    def _fed(self, inputs: Mapping[str, Any], is_open: set[str]) -> list[str]:
        """Options that feed the arrays, from files; and the shapes of those that are open."""
        import numpy as np

        files, shapes = [], []
        for number, (name, array) in enumerate(inputs.items()):
            is_wide = array.dtype == np.int64 and self._program.version.number < _NO_INT64
            file = self._room / f"input-{number}.bin"
            np.ascontiguousarray(array, np.int32 if is_wide else None).tofile(file)
            files.append(f"{quoted(name)}:{file}")
            if name in is_open:
                shapes.append(shape_option(name, array.shape))
        flags = [f"--loadInputs={','.join(files)}"] if files else []
        return flags + ([f"--shapes={','.join(shapes)}"] if shapes else [])

    def _switched(self) -> list[str]:
        """Options for what a call includes and how it waits, where they are not the default."""
        flags = []
        if self._trial.copies == "none":
            flags += self._program.optional(TRANSFERS.flag)
        if self._trial.waiting == "spin":
            flags += self._program.optional(SPIN_WAIT.flag)
        if self._trial.with_graph:
            flags += self._program.optional(CUDA_GRAPH.flag)
        return flags

    def _take_options(self, printed: Printed) -> None:
        """What was really done, as the program prints it: from 11 on other things are usual.

        Raises MeasurementError where calls did not copy or wait as they were to.
        """
        for switch, name in _SWITCHES.items():
            if (is_on := printed.is_on(switch.option)) is not None:
                self.options[name] = "on" if is_on else "off"
        self.launching = "graph" if self.options.get("cuda_graph") == "on" else "enqueue"
        trtexec = f"trtexec of {self._program.version.name}"
        if self._trial.copies != "none" and self.options.get("data_transfers") == "off":
            raise MeasurementError(f"{trtexec} copies nothing in a call", fix="use --copies none")
        if self._trial.waiting == "block" and self.options.get("spin_wait") == "on":
            raise MeasurementError(f"{trtexec} spins while it waits", fix="use --wait spin")


def read_times(path: Path, copies: Copies) -> tuple[float, ...]:
    """Seconds of each query of ``--exportTimes``, with the copies that belong to a call.

    GPU time between events; the time that the host takes to enqueue it is not in it, unless the
    GPU waits for that. Raises SchemaError, also where a query lacks one of its times.
    """
    queries = _read(path, list[ExportedQuery], "times")
    if any(query.compute_ms <= 0 for query in queries):
        raise SchemaError("trtexec exported a query without a time", where=path.name)
    return tuple(1e-3 * (query.compute_ms + _copies_ms(query, copies, path)) for query in queries)


def _copies_ms(query: ExportedQuery, copies: Copies, path: Path) -> float:
    total_ms = 0.0
    for way, copy_ms in (("in", query.copy_in_ms), ("out", query.copy_out_ms)):
        if copies in {way, "both"}:
            if copy_ms is None:
                raise SchemaError("trtexec exported a query without its copies", where=path.name)
            total_ms += copy_ms
    return total_ms


def read_profile(path: Path, described: tuple[ExportedLayer, ...]) -> tuple[LayerTime, ...]:
    """The layers of ``--exportProfile`` with their mean times; raises SchemaError."""
    means = {
        entry.name: [entry.average_ms * 1e-3]
        for entry in _read(path, list[ExportedLayerTime], "profile")
        if entry.name is not None and entry.average_ms is not None
    }
    if not means:
        raise SchemaError("trtexec exported no layer", where=path.name)
    return layer_times([means], described)


def read_layers(path: Path) -> tuple[ExportedLayer, ...]:
    """The layers of ``--exportLayerInfo``; raises SchemaError."""
    return tuple(_read(path, ExportedEngine, "layers").described)


def _read(path: Path, kind: type[Kind], what: str) -> Kind:
    if not path.is_file():
        raise SchemaError(f"trtexec exported no {what}", where=path.name)
    try:
        return msgspec.json.decode(read_whole(path, most_bytes=_MOST_BYTES), type=kind)
    except msgspec.DecodeError as error:
        raise SchemaError(f"the {what} that trtexec exported are cut: {error}") from error
