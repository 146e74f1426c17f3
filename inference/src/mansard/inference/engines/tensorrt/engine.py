"""The engine "tensorrt": builds engine files and runs them, through TensorRT's Python bindings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.formats.tensorrt import ExportedLayer
from mansard.core.records import EngineBuild, Launching, LayerTime
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import open_file, storage_errors
from mansard.core.text import cpu_list
from mansard.inference.engines.engine import Built, EngineProbe, Enqueue, absent_engine
from mansard.inference.engines.tensorrt.building import build
from mansard.inference.engines.tensorrt.cuda_calls import Cuda
from mansard.inference.engines.tensorrt.execution import ExecutionContext
from mansard.inference.engines.tensorrt.layers import (
    LayerTimes,
    inspect,
    layer_times,
    profiler,
    trace,
)
from mansard.inference.engines.tensorrt.messages import collect_messages, explained
from mansard.inference.engines.tensorrt.versions import load_bindings, read_version
from mansard.inference.plan import BuildTrial, NetworkTrial, parse_nodes

_DLA_CORE = "dla_core"  # among the options of a build


class LoadedTensorrtNetwork:
    """An engine with a context, its inputs and outputs in place."""

    def __init__(
        self, trial: NetworkTrial, path: Path, build: EngineBuild, inputs: Mapping[str, Any]
    ) -> None:
        self._trial, self._inputs = trial, inputs
        self._bindings, self._cuda = load_bindings(), Cuda()
        self._times: LayerTimes | None = None
        is_waiting_set = self._cuda.wait_by(trial.waiting)
        core = build.options.get(_DLA_CORE)
        self._runtime, self._engine = _load(self._bindings, path, core)
        self._layers = self._described()
        is_shared = self._cuda.is_integrated()
        self.options: dict[str, str] = {"memory": "managed" if is_shared else "pinned"}
        if not is_waiting_set:
            self.options["schedule"] = "that of the first network of the process"
        if core is not None:
            self.options |= {_DLA_CORE: core, "dla_layers": self._placement(path.name)}
        if (placed := build.options.get("dla_nodes")) is not None:
            self.options["dla_placement"] = placement_words(self._layers, parse_nodes(placed))
        self._execution, refused = self._open(with_graph=trial.with_graph)
        self.launching: Launching = "graph" if trial.with_graph and not refused else "enqueue"
        if trial.with_graph:
            self.options["cuda_graph"] = f"not possible: {refused}" if refused else "on"

    def call(self) -> None:
        """Run the network once, until its outputs are there."""
        self._execution.run(self._trial.copies)
        if self._times is not None:
            self._times.end_call()

    def time_enqueues(self, n_calls: int) -> list[Enqueue]:
        """Seconds of the host and of the GPU in each call; empty where a call waits for the GPU."""
        times = (self._execution.time_enqueue() for _ in range(n_calls))
        return [seconds for seconds in times if seconds is not None]

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Bind ``inputs`` for the next calls; other inputs stay as they are."""
        self._execution.feed(inputs)

    def fetch(self) -> dict[str, Any]:
        """Every output of the last call by its ONNX name, as arrays that the caller may keep."""
        return self._execution.fetch()

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for ``inputs``, by name."""
        self.feed(inputs)
        self._execution.run()
        return self.fetch()

    def start_profiling(self) -> None:
        """Create a second context whose layers are timed, as a graph where calls launch one."""
        self._execution.close()
        times = LayerTimes()
        self._execution, refused = self._open(with_graph=self.launching == "graph", times=times)
        if refused:
            self.options["profile"] = f"without the graph: {refused}"
        times.current = {}  # of calls that made the graph
        times.calls.clear()
        self._times = times

    def end_profiling(self, counted: Sequence[bool]) -> tuple[tuple[LayerTime, ...], str]:
        """The layers in the calls that are ``counted``, or none and the reason."""
        times = self._times
        if times is None or len(times.calls) != len(counted):
            return (), "TensorRT timed the layers of other calls"
        wanted = [call for call, is_kept in zip(times.calls, counted, strict=True) if is_kept]
        if not any(wanted):
            return (), "TensorRT reported the time of no layer"
        return layer_times(wanted, self._layers), ""

    def close(self) -> None:
        """Free the memory of the context and of the engine."""
        self._execution.close()
        self._engine = self._runtime = None

    def _open(
        self, *, with_graph: bool, times: LayerTimes | None = None
    ) -> tuple[ExecutionContext, str]:
        """A context, as a CUDA graph where one is wanted; else the reason why it is not a graph."""
        made = self._new(times)
        if not with_graph:
            return made, ""
        try:
            made.capture()
        except MeasurementError as error:
            made.close()
            return self._new(times), error.what
        return made, ""

    def _new(self, times: LayerTimes | None) -> ExecutionContext:
        profile = None if times is None else profiler(self._bindings, times)
        return ExecutionContext(
            self._bindings, self._engine, self._cuda, self._inputs, self._trial.waiting, profile
        )

    def _described(self) -> tuple[Any, ...]:
        """The engine's layers; empty where the inspector's output cannot be read."""
        try:
            return inspect(self._bindings, self._engine)
        except SchemaError:
            return ()

    def _placement(self, where: str) -> str:
        """How many layers a DLA core runs; raises MeasurementError where it certainly runs none."""
        if not any(layer.layer_type for layer in self._layers):
            return "not said"
        n_there = sum(layer.is_on_dla for layer in self._layers)
        if not n_there:
            raise MeasurementError("no layer of it runs on the DLA", where=where, fix="use the GPU")
        return f"{n_there} of {len(self._layers)}"


def placement_words(layers: Sequence[ExportedLayer], placed: Collection[int]) -> str:
    """Whether the DLA runs the nodes that were ``placed`` on it, by the engine's ``layers``.

    TensorRT may leave some of them to the GPU. Nodes that are in no layer, as what folds into
    constants, do not count.
    """
    traced = list(zip(layers, trace(layers), strict=True))
    if any(nodes is None for layer, nodes in traced if layer.is_on_dla):
        return "not said: the inspector lists no nodes for a layer on the DLA"
    there, elsewhere = (
        {node for layer, nodes in traced if layer.is_on_dla is on_dla for node in nodes or ()}
        for on_dla in (True, False)
    )
    asked = set(placed) & (there | elsewhere)
    words = f"{len(there & asked)} of {len(asked)} nodes are on the DLA"
    if left := sorted(asked - there):
        words += f", the GPU runs {cpu_list(left)}"
    if others := sorted(there - asked):
        words += f"; and {cpu_list(others)}, which were to be on the GPU"
    return words


def _load(bindings: Any, path: Path, dla_core: str | None) -> tuple[Any, Any]:
    """A runtime and the engine in the file; raises MeasurementError where it cannot be loaded."""
    with storage_errors(path), open_file(path) as stream:
        content = stream.read()
    with collect_messages(bindings) as (logger, messages):
        runtime = bindings.Runtime(logger)
        if dla_core is not None:
            n_cores = runtime.num_DLA_cores
            if int(dla_core) >= n_cores:
                has = f"cores {' and '.join(map(str, range(n_cores)))}" if n_cores else "none"
                raise MeasurementError(
                    f"needs DLA core {dla_core}; this device has {has}", where=path.name
                )
            runtime.DLA_core = int(dla_core)
        engine = runtime.deserialize_cuda_engine(content)
        if engine is None:
            said = explained(messages, path.name)
            raise MeasurementError(
                said.what,
                where=path.name,
                fix=said.fix or "build it again on the device that runs it",
            )
    return runtime, engine


_PROVIDER = "tensorrt"


class TensorRt:
    """The engine "tensorrt". Its one provider is the GPU; a DLA core is a setting of the build."""

    name = "tensorrt"
    package = "tensorrt"

    def probe(self) -> EngineProbe:
        """The version where it can be imported; a provider where there is also a GPU."""
        try:
            version = read_version(load_bindings()).text
        except MeasurementError as error:
            return absent_engine(self.name, (_PROVIDER,), str(error))
        cuda = Cuda()
        versions, reason = {self.package: version}, ""
        try:
            versions |= cuda.versions()
            reason = "" if cuda.n_devices() else "CUDA finds no GPU"
        except MeasurementError as error:
            reason = f"there is no GPU that CUDA can use: {error.what}"
        return EngineProbe(
            engine=self.name,
            version=version,
            versions=versions,
            providers=None if reason else (_PROVIDER,),
            absent={_PROVIDER: reason} if reason else {},
            unknown={"providers": reason} if reason else {},
        )

    def build(
        self,
        trial: BuildTrial,
        folder: Path,
        into: Path,
        announce: Callable[[str, float], None],
    ) -> Built:
        """Write the engine file of ``trial``; raises MeasurementError where it cannot be built."""
        return build(trial, folder, into, announce, Cuda())

    def load(
        self,
        trial: NetworkTrial,
        folder: Path,
        inputs: Mapping[str, Any],
        n_threads: int,  # noqa: ARG002
    ) -> LoadedTensorrtNetwork:
        """Load the engine file; raises MeasurementError where it cannot run."""
        path = folder / trial.engine_file
        built = read_document(folder / f"{trial.engine_file}.json", EngineBuild)
        return LoadedTensorrtNetwork(trial, path, built, inputs)


TENSORRT = TensorRt()
