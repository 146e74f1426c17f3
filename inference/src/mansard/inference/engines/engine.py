"""The protocols of engines: what one can run, a loaded network, builds of engine files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from mansard.core.errors import MeasurementError
from mansard.core.records import Launching, LayerTime, Record, Schema
from mansard.inference.plan import BuildTrial, NetworkTrial


class EngineProbe(Record, frozen=True, kw_only=True):
    """What an engine offers in this process; without a provider, ``unknown`` has the reason."""

    schema: ClassVar[Schema] = Schema("engine-probe", 1)

    engine: str
    version: str | None
    versions: dict[str, str]  # of everything that can change a timing
    providers: tuple[str, ...] | None  # "cpu", "cuda", "tensorrt": those that can run here
    absent: dict[str, str]  # why each of the others cannot


def absent_engine(engine: str, providers: Iterable[str], reason: str) -> EngineProbe:
    """The probe of a missing engine; ``providers``: the ones that it has elsewhere."""
    return EngineProbe(
        engine=engine,
        version=None,
        versions={},
        providers=None,
        absent=dict.fromkeys(providers, reason),
        unknown=dict.fromkeys(("version", "providers"), reason),
    )


def check_provider(spec: NetworkTrial, probe: EngineProbe) -> None:
    """Raise MeasurementError where the engine or the trial's provider is missing."""
    fix = "'mansard doctor' says what is missing"
    if probe.providers is None:
        raise MeasurementError(probe.unknown["providers"], fix=fix)
    if spec.provider not in probe.providers:
        reason = probe.absent.get(spec.provider, "it has no such provider")
        raise MeasurementError(f"{spec.engine} cannot run on {spec.provider}: {reason}", fix=fix)


class LoadedNetwork(Protocol):
    """A network loaded by an engine, with its inputs bound.

    Whatever fails raises MeasurementError, with what the engine says of it in one line.
    """

    launching: Launching
    options: Mapping[str, str]  # that can change a time, beside those of the trial

    def call(self) -> None:
        """Run the network once, until its outputs are there."""

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Let calls read ``inputs`` from now on, by name; those that are not there stay.

        They are arrays like those that the network was loaded with. They stay as they are until
        others are fed: an engine may read them where they lie.
        """

    def fetch(self) -> dict[str, Any]:
        """Every output of the last call by its name in the file, in arrays of the caller's.

        They lie in the host's memory, and no later call writes into them. Not to be called once
        profiling has started, as ``feed``.
        """

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``feed``, run once without the copies of a call, ``fetch``."""

    def start_profiling(self) -> None:
        """Start timing layers, which makes calls slower."""

    def end_profiling(self, counted: Sequence[bool]) -> tuple[tuple[LayerTime, ...], str]:
        """The layers in those calls since profiling was started that are ``counted``.

        Without layers, the second value says why. The network cannot be called any more
        afterwards.
        """

    def close(self) -> None:
        """Free its memory and other resources."""


Enqueue = tuple[float, float]  # seconds of one call: of the host to enqueue it, and of the GPU


@runtime_checkable
class EnqueuedNetwork(LoadedNetwork, Protocol):
    """A network whose calls are enqueued on a GPU, and that can time the enqueueing alone."""

    def time_enqueues(self, n_calls: int) -> Sequence[Enqueue]:
        """The times of ``n_calls`` calls; none where a call waits for the GPU before it returns."""


class SelfTimedNetwork(Protocol):
    """A network that another program runs and times: it cannot be called, only asked for times.

    ``options`` say what its times are of; ``enqueues`` are those of the calls that were timed last,
    empty where the program does not say. Whatever fails raises MeasurementError or SchemaError.
    """

    launching: Launching
    options: Mapping[str, str]
    enqueues: Sequence[Enqueue]

    def time_calls(self, n_calls: int) -> tuple[float, ...]:
        """Seconds of ``n_calls`` calls in a row, after a warm-up."""

    def time_layers(self, n_calls: int) -> tuple[LayerTime, ...]:
        """The layers, with their mean times over ``n_calls`` calls or more."""

    def close(self) -> None:
        """Free its resources."""


class Engine(Protocol):
    """A runtime of networks."""

    name: str
    package: str  # whose version in a plan's ``versions`` is the engine's

    def probe(self) -> EngineProbe:
        """The engine's version and providers in this process, or why it cannot be used."""

    def load(
        self, trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any], n_threads: int
    ) -> LoadedNetwork:
        """The network of ``trial`` from its file; raises MeasurementError where it cannot run."""


@runtime_checkable
class SelfTimingEngine(Engine, Protocol):
    """An engine whose program runs and times networks; ``load`` raises MeasurementError."""

    def open(
        self, trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any]
    ) -> SelfTimedNetwork:
        """The network of ``trial``, for runs of the program."""


@dataclass(frozen=True)
class Built:
    """What a builder alone knows of an engine file; fields as those of EngineBuild.

    ``unknown``: the reasons of those that are None.
    """

    n_layers: int | None
    dla_share: float | None
    timing_cache: Literal["used", "new", "none"]
    options: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class BuildingEngine(Engine, Protocol):
    """An engine that first builds files, and loads them on the device that they were built for."""

    def build(
        self,
        trial: BuildTrial,
        folder: Path,
        into: Path,
        announce: Callable[[str, float], None],
    ) -> Built:
        """Write ``into / trial.engine_file`` whole or not at all, from the files in ``folder``.

        A timing cache that is in ``into`` is used, and written after the build. ``announce`` gets
        what is done now, and how many seconds it takes at most. Raises MeasurementError, in one
        line, where the network cannot be built.
        """
