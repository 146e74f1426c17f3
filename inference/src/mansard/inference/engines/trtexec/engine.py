"""The engine "trtexec": for machines that have TensorRT's program and not its Python bindings.

It builds an engine file, and runs a network: each pass is a run of the program, which times every
query.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.formats.onnx import labels_of, read_nodes
from mansard.core.formats.tensorrt import (
    CUDA_GRAPH,
    GRAPH_REFUSED,
    SPIN_WAIT,
    TRANSFERS,
    ExportedEngine,
    ExportedLayer,
    ExportedLayerTime,
    ExportedQuery,
)
from mansard.core.records import Copies, EngineBuild, Launching, LayerTime
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import move_over, read_whole, storage_errors
from mansard.core.storage.leftovers import temporary_folder
from mansard.core.text import cpu_list
from mansard.inference.engines.engine import (
    Built,
    EngineProbe,
    Enqueue,
    LoadedNetwork,
    absent_engine,
)
from mansard.inference.engines.tensorrt.building import TIMING_CACHE, is_refused
from mansard.inference.engines.tensorrt.layers import layer_times
from mansard.inference.engines.tensorrt.messages import Messages, remarks
from mansard.inference.engines.tensorrt.precision import Typing, check_precision, find_typing
from mansard.inference.engines.trtexec.program import (
    Program,
    ProgramOutput,
    find_program,
    quoted,
    shape_option,
)
from mansard.inference.plan import BUILDING_S, BuildSettings, BuildTrial, NetworkTrial

_START_S = 600.0  # at most: it reads the engine, and warms up
_WARM_UP_MS = 200  # that trtexec itself takes
_LONGEST_CALL_S = 600.0
_MOST_BYTES = 1 << 30  # of an export
_NO_INT64 = (10,)  # before it, engines take integers of 32 bits
# The switches of trtexec by the names of our options.
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
        self.enqueues: list[Enqueue] = []
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
        queries = read_queries(exported)[-n_calls:]
        seconds = call_times(queries, self._trial.copies, exported)
        self.enqueues = [
            (1e-3 * enqueue_ms, 1e-3 * query.compute_ms)
            for query in queries
            if (enqueue_ms := query.enqueue_ms) is not None and enqueue_ms >= 0
        ]
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

    def _run(self, arguments: list[str], n_calls: int) -> ProgramOutput:
        timeout_s = _START_S + 2 * n_calls * (self._call_s or _LONGEST_CALL_S)
        return self._program.run([*self._arguments, *arguments], timeout_s, self._path.name)

    def _fed(self, inputs: Mapping[str, Any], is_open: set[str]) -> list[str]:
        """Options that load the inputs from files, and the shapes of open inputs."""
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
        """Options for copies and waiting, where they are not the default."""
        flags = []
        if self._trial.copies == "none":
            flags += self._program.optional(TRANSFERS.flag)
        if self._trial.waiting == "spin":
            flags += self._program.optional(SPIN_WAIT.flag)
        if self._trial.with_graph:
            flags += self._program.optional(CUDA_GRAPH.flag)
        return flags

    def _take_options(self, printed: ProgramOutput) -> None:
        """What was really done, as the program prints it: from 11 on other things are usual.

        Raises MeasurementError where calls did not copy or wait as they were to.
        """
        for switch, name in _SWITCHES.items():
            if (is_on := printed.is_on(switch.option)) is not None:
                self.options[name] = "on" if is_on else "off"
        if any(GRAPH_REFUSED in warning for warning in printed.messages.warnings):
            self.options["cuda_graph"] = "not possible: trtexec says that the engine cannot be one"
        self.launching = "graph" if self.options.get("cuda_graph") == "on" else "enqueue"
        trtexec = f"trtexec of {self._program.version.name}"
        if self._trial.copies != "none" and self.options.get("data_transfers") == "off":
            raise MeasurementError(f"{trtexec} copies nothing in a call", fix="use --copies none")
        if self._trial.waiting == "block" and self.options.get("spin_wait") == "on":
            raise MeasurementError(f"{trtexec} spins while it waits", fix="use --wait spin")


def read_queries(path: Path) -> list[ExportedQuery]:
    """The queries of ``--exportTimes``; raises SchemaError, also where one lacks its time."""
    queries = _read(path, list[ExportedQuery], "times")
    if any(query.compute_ms <= 0 for query in queries):
        raise SchemaError("trtexec exported a query without a time", where=path.name)
    return queries


def call_times(queries: Sequence[ExportedQuery], copies: Copies, path: Path) -> tuple[float, ...]:
    """Seconds of each query, with the copies that belong to a call; raises SchemaError.

    GPU time between events; the time that the host takes to enqueue it is not in it, unless the
    GPU waits for that.
    """
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


_MIB = 1 << 20


def build(
    program: Program,
    trial: BuildTrial,
    folder: Path,
    into: Path,
    announce: Callable[[str, float], None],
) -> Built:
    """Write ``into / trial.engine_file``, whole or not at all; raises MeasurementError."""
    path, settings = folder / trial.file, trial.settings
    with storage_errors(path):
        typing = find_typing(path, trial.precision, program.version)
    _check(program, trial, typing)
    announce(f"{trial.title}: trtexec is building", BUILDING_S)
    cache = into / TIMING_CACHE
    is_there = cache.exists()
    with temporary_folder(into) as room:
        made = room / "made.engine"
        arguments = [
            f"--onnx={path}",
            f"--saveEngine={made}",
            *_typing_flags(program, typing),
            *_setting_flags(program, settings),
            *_placement_flags(program, path, settings),
            *program.optional("--profilingVerbosity=detailed"),
            *program.optional(f"--timingCacheFile={cache}"),
            *(program.optional("--skipInference") or ["--buildOnly"]),  # called so up to 8.5
        ]
        messages = program.run(arguments, BUILDING_S, trial.model).messages
        if not made.is_file():
            raise MeasurementError("trtexec ended well, but wrote no engine", where=trial.model)
        move_over(made, into / trial.engine_file)
    of_dla = settings.dla_core is not None
    return Built(
        n_layers=None,
        dla_share=None,
        timing_cache=_cache_state(program, messages, is_there=is_there),
        options=typing.options | settings.options,
        remarks=remarks(messages),
        unknown={
            "n_layers": "trtexec does not say",
            "dla_share": "trtexec does not say" if of_dla else "it is built for the GPU",
        },
    )


def _check(program: Program, trial: BuildTrial, typing: Typing) -> None:
    """Raise MeasurementError for what this trtexec cannot build."""
    check_precision(typing, program.version, None)
    if typing.is_calibrated:
        raise MeasurementError(
            "trtexec cannot calibrate int8: it would take random scales",
            where=trial.model,
            fix="give a file with QuantizeLinear nodes, or use the engine tensorrt",
        )
    if trial.settings.compute_capability is not None:
        raise MeasurementError("trtexec builds for the device that it runs on alone")


def _typing_flags(program: Program, typing: Typing) -> list[str]:
    flags = [] if typing.allows_tf32 else ["--noTF32"]  # in every version
    if typing.is_strong:
        return flags + program.optional("--stronglyTyped")  # from 11 on there is nothing else
    if typing.precision == "fp32":
        return flags
    return ["--int8", "--fp16"] if typing.precision == "int8" else [f"--{typing.precision}"]


def _setting_flags(program: Program, settings: BuildSettings) -> list[str]:
    """The settings as options; raises MeasurementError for one that this version lacks."""
    flags, needed = [], []
    if (n_bytes := settings.workspace_bytes) is not None:
        mib = max(1, n_bytes // _MIB)
        is_new = program.has("memPoolSize")
        flags.append(f"--memPoolSize=workspace:{mib}" if is_new else f"--workspace={mib}")
    if (level := settings.optimization_level) is not None:
        needed.append(f"--builderOptimizationLevel={level}")
    if (core := settings.dla_core) is not None:
        needed.append(f"--useDLACore={core}")
        flags += ["--allowGPUFallback"] if settings.with_fallback else []
    for flag, which in (("minShapes", "least"), ("optShapes", "usual"), ("maxShapes", "most")):
        if settings.ranges:
            named = settings.ranges.items()
            shapes = ",".join(shape_option(name, getattr(sizes, which)) for name, sizes in named)
            flags.append(f"--{flag}={shapes}")
    for argument in needed:
        if not program.optional(argument):
            raise MeasurementError(
                f"trtexec of {program.version.name} has no {argument.partition('=')[0]}",
                fix="leave it out",
            )
    return flags + needed


def _placement_flags(program: Program, path: Path, settings: BuildSettings) -> list[str]:
    """``--layerDeviceTypes`` for the nodes that are not to be on the DLA, where some are.

    trtexec's default device is the DLA then, also of layers that its parser adds beside a node:
    those that the DLA lacks run on the GPU. Raises MeasurementError where it lacks the option.
    """
    if not settings.dla_nodes:
        return []
    with storage_errors(path):
        nodes = {node.name: labels_of(node.name) for node in read_nodes(path)}
    others = [name for name, labels in nodes.items() if not set(labels) & set(settings.dla_nodes)]
    if len(others) == len(nodes):
        raise MeasurementError(
            f"no node of it is any of {cpu_list(settings.dla_nodes)}, which are for the DLA",
            where=path.name,
            fix="name nodes by their index in the score: mansard score MODEL",
        )
    flags = [] if settings.with_fallback else ["--allowGPUFallback"]
    if not others:
        return flags
    if not program.has("layerDeviceTypes"):
        raise MeasurementError(
            f"trtexec of {program.version.name} cannot place layers",
            fix="use the engine tensorrt",
        )
    return [*flags, f"--layerDeviceTypes={','.join(f'{name}:GPU' for name in others)}"]


def _cache_state(
    program: Program, messages: Messages, *, is_there: bool
) -> Literal["used", "new", "none"]:
    if not program.has("timingCacheFile"):
        return "none"
    return "used" if is_there and not is_refused(messages) else "new"


_PROVIDER = "tensorrt"


class Trtexec:
    """The engine "trtexec". Only a build or a run shows whether there is a GPU."""

    name = "trtexec"
    package = "trtexec"

    def probe(self) -> EngineProbe:
        """Its version, where the program is found."""
        try:
            version = find_program().version.text
        except MeasurementError as error:
            return absent_engine(self.name, (_PROVIDER,), str(error))
        return EngineProbe(
            engine=self.name,
            version=version,
            versions={self.package: version},
            providers=(_PROVIDER,),
            absent={},
        )

    def build(
        self,
        trial: BuildTrial,
        folder: Path,
        into: Path,
        announce: Callable[[str, float], None],
    ) -> Built:
        """Write the engine file of ``trial``; raises MeasurementError where it cannot be built."""
        return build(find_program(), trial, folder, into, announce)

    def load(
        self,
        trial: NetworkTrial,
        folder: Path,  # noqa: ARG002
        inputs: Mapping[str, Any],  # noqa: ARG002
        n_threads: int,  # noqa: ARG002
    ) -> LoadedNetwork:
        """Raises MeasurementError: only the program calls a network, and it shows no outputs."""
        raise MeasurementError(
            "trtexec gives no way to call a network", where=trial.model, fix="use another engine"
        )

    def open(self, trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any]) -> TrtexecNetwork:
        """The network for runs of trtexec, each of which loads the engine file."""
        built = read_document(folder / f"{trial.engine_file}.json", EngineBuild)
        return TrtexecNetwork(find_program(), trial, folder / trial.engine_file, built, inputs)


TRTEXEC = Trtexec()
