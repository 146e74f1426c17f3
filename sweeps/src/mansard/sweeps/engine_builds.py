"""Engine files that networks are run from: which engine, what they are built from, and when.

They are built before a mode is measured, once for all modes, in the highest of those that are
measured: the builder times kernels there, and takes the least time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mansard.core.errors import (
    ControllerLost,
    DeniedError,
    DeviceError,
    MeasurementError,
    UsageError,
)
from mansard.core.records import EngineBuild, MachineIdentity, PowerMode
from mansard.inference.engine_files import EngineFiles
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import BuildingEngine, EngineProbe
from mansard.inference.engines.tensorrt.versions import has
from mansard.inference.plan import SEED, BuildPlan, BuildSettings, BuildTrial, ShapeRange
from mansard.sweeps.modes import ModePlan, measure_modes
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.targets import BenchTarget

if TYPE_CHECKING:
    from mansard.inference.preparing.networks import PreparedNetwork
    from mansard.inference.preparing.samples import SampleChoice

# In the order in which they are tried on a Jetson where none is named.
BUILDERS = ("tensorrt", "trtexec")
_OF_JETSON = (*BUILDERS, "ort")
STAND_IN = "+stand-in"  # that the version of a stand-in of an engine ends with
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")
_NAME_CHARACTERS = 40  # of a data set, in the names of engine files


def choose_engine(
    target: BenchTarget, machine: MachineIdentity, wanted: str | None, reporter: Reporter
) -> EngineProbe:
    """What is known of the engine that is ``wanted``, or of the best one that the board has.

    That is TensorRT on a Jetson, by its bindings or by trtexec, else ONNX Runtime; a simulated
    board has no GPU that TensorRT could run on. Raises MeasurementError where a stand-in is found
    on a machine that is not simulated.
    """
    is_jetson = machine.kind == "jetson" and not machine.is_simulated
    names = (wanted,) if wanted else _OF_JETSON if is_jetson else ("ort",)
    absent = []
    for name in names:
        probe = _checked_probe(target, machine, name)
        if probe.providers is not None:
            break
        absent.append(f"{name} is not there ({probe.unknown['providers']})")
    if absent and probe.providers is not None:
        reporter.note(f"note: the networks run on {probe.engine}: {'; '.join(absent)}")
    return probe


def choose_builder(
    target: BenchTarget, machine: MachineIdentity, wanted: str | None, reporter: Reporter
) -> EngineProbe:
    """What is known of the engine that is ``wanted``, or of the first that can build engine files.

    Raises MeasurementError where none is there, or it is a stand-in on a machine that is not
    simulated.
    """
    absent: list[str] = []
    for name in (wanted,) if wanted else BUILDERS:
        probe = _checked_probe(target, machine, name)
        if probe.version is not None:
            if absent:
                reporter.note(f"note: {name} builds: {'; '.join(absent)}")
            return probe
        absent.append(f"{name} is not there ({probe.unknown['version']})")
    raise MeasurementError(
        f"nothing here builds engine files: {'; '.join(absent)}",
        fix="'mansard doctor' says what is missing",
    )


def _checked_probe(target: BenchTarget, machine: MachineIdentity, name: str) -> EngineProbe:
    probe = target.engine_probe(name)
    if is_stand_in(probe) and not machine.is_simulated:
        raise MeasurementError(
            f"{name} {probe.version} is a stand-in for simulated boards, "
            f"and {machine.name} is none",
            fix="install the real one, or unset MANSARD_TENSORRT",
        )
    return probe


def is_stand_in(probe: EngineProbe) -> bool:
    """Whether it is a stand-in of the engine, which runs networks on the CPU."""
    return (probe.version or "").endswith(STAND_IN)


def builds_files(engine: str) -> bool:
    """Whether an engine runs networks from files that it built before."""
    return isinstance(find_engine(engine), BuildingEngine)


class Builds:
    """The engine files of a sweep, each built from the network that is run or one like it.

    Another one is needed where a file serves several batches, so that its batch is open; and where
    the builder finds the ranges of int8 itself, from samples and a network of fp32. Weights, names
    of nodes and model hash are the same. ``is_dynamic``: one file for all batches of a network;
    ``has_scales``: int8 files have their ranges in them, also where the builder could find them.
    """

    def __init__(
        self,
        settings: BuildSettings,
        dims: Mapping[str, int],
        *,
        is_dynamic: bool = False,
        has_scales: bool = False,
    ) -> None:
        self._settings, self._dims = settings, dims
        self._is_dynamic, self._has_scales = is_dynamic, has_scales
        self.others: dict[tuple[str, bool], PreparedNetwork] = {}  # that files are built from
        self.samples: dict[str, SampleChoice] = {}  # to calibrate with, by their file

    def trials(
        self, networks: Sequence[PreparedNetwork], probe: EngineProbe, device: str
    ) -> dict[str, BuildTrial]:
        """The engine file of each network, by the name of its ONNX file; none where none is needed.

        ``device``: that the files are for, in words. Raises UsageError where the engine has no use
        for the settings, or files cannot be built with them.
        """
        if not builds_files(probe.engine):
            if self._is_dynamic or self._settings != BuildSettings():
                raise UsageError(
                    f"{probe.engine} loads ONNX files: there is no engine file to build with these "
                    "options",
                    fix="leave --dla, --no-fallback, --opt-level, --workspace and --dynamic out, "
                    "or use --engine tensorrt",
                )
            return {}
        if self._is_dynamic and self._settings.dla_core is not None:
            raise UsageError(
                "a DLA core runs only networks of fixed shapes", fix="leave --dynamic out"
            )
        return {network.file: self._trial(network, networks, probe, device) for network in networks}

    def _trial(
        self,
        network: PreparedNetwork,
        networks: Sequence[PreparedNetwork],
        probe: EngineProbe,
        device: str,
    ) -> BuildTrial:
        from mansard.inference.preparing import PreparedPart

        version, settings, samples = str(probe.version), self._settings, network.recipe.calibration
        if samples is not None:
            name = _UNSAFE.sub("-", samples.file.name).strip("-.")[:_NAME_CHARACTERS]
            settings = replace(settings, dataset=name or "data")
        # trtexec can be given no samples.
        can_calibrate = probe.engine == "tensorrt" and has(version, "calibrators")
        is_calibrated = can_calibrate and not self._has_scales and samples is not None
        if is_calibrated and samples is not None:
            self.samples[samples.file.file] = samples
            settings = replace(
                settings,
                calibration_file=samples.file.file,
                calibration_hash=samples.file.file_hash,
            )
        precision, source, batches = network.precision, network, list[int | None]()
        if self._is_dynamic:
            same = _at_every_batch(network, networks)
            usual = same[len(same) // 2]
            source = self._other(usual, is_fp32=is_calibrated, is_open=True)
            settings = replace(settings, ranges=_ranges(same, source))
            shared = set.intersection(*(set(alike.dimensions.items()) for alike in same))
            source = replace(source, dimensions=dict(sorted(shared)))
            batches = [alike.batch for alike in same]
        elif is_calibrated:
            source = self._other(network, is_fp32=True, is_open=False)
        elif isinstance(network, PreparedPart) and network.types != precision:
            # Where the builder chooses types, it may take fp16 for these layers in the whole too.
            precision = network.types if has(version, "strongly_typed") else "fp16"
        return source.build_trial(
            engine=probe.engine,
            version=version,
            device=device,
            settings=settings,
            precision=precision,
            batches=batches,
        )

    def _other(self, network: PreparedNetwork, *, is_fp32: bool, is_open: bool) -> PreparedNetwork:
        """``network`` before it was converted to int8, with its batch left open, or both."""
        from mansard.inference.preparing import Calibrating, prepare

        recipe, key = network.recipe, (network.file, is_fp32)
        if key not in self.others:
            is_converted = recipe.conversion is not None and not is_fp32
            self.others[key] = prepare(
                recipe.source,
                batch=network.batch,
                dims=self._dims,
                inputs=recipe.inputs,
                seed=SEED,
                precision=network.precision if is_converted else None,
                calibrating=Calibrating("tensorrt", lambda _: recipe.calibration),
                is_batch_open=is_open,
            )
        return self.others[key]


def _at_every_batch(
    network: PreparedNetwork, networks: Sequence[PreparedNetwork]
) -> list[PreparedNetwork]:
    """``network`` at all of its batches, the smallest first."""
    alike = [
        other
        for other in networks
        if (other.model_hash, other.recipe.source, other.precision)
        == (network.model_hash, network.recipe.source, network.precision)
    ]
    return sorted(alike, key=lambda other: other.batch or 0)


def _ranges(networks: Sequence[PreparedNetwork], opened: PreparedNetwork) -> dict[str, ShapeRange]:
    """The ranges of the open dimensions of ``opened`` in an engine file for all of ``networks``.

    ``opened``: the same network with its batch left open, at the usual batch; ``networks``: it at
    every batch. Raises UsageError where its file fixes the batch.
    """
    shapes = [{spec.name: spec.shape for spec in network.input_specs} for network in networks]
    usual = {spec.name: spec.shape for spec in opened.input_specs}
    is_open = [name for name, shape in opened.recipe.shapes.items() if -1 in shape]
    if not is_open:
        raise UsageError(
            f"{opened.model} has a fixed batch", fix="leave --dynamic out, or export it again"
        )
    return {
        name: ShapeRange(
            least=min(dims[name] for dims in shapes),
            usual=usual[name],
            most=max(dims[name] for dims in shapes),
        )
        for name in is_open
    }


def highest_first(modes: Sequence[PowerMode]) -> list[PowerMode]:
    """``modes`` by their caps of GPU, memory and CPU, the highest first; without a cap first."""

    def caps(mode: PowerMode) -> tuple[float, ...]:
        clocks_hz = (mode.gpu_hz, mode.memory_hz, mode.cpu_hz)
        return (*(math.inf if cap_hz is None else cap_hz for cap_hz in clocks_hz), mode.n_cpus)

    return sorted(modes, key=caps, reverse=True)


def build_missing(
    make_plan: Callable[[PowerMode], BuildPlan],
    target: BenchTarget,
    modes: Sequence[PowerMode],
    runs: Path,
    reporter: Reporter,
    *,
    files: Path,
    write_files: Callable[[Sequence[BuildTrial]], object],
) -> tuple[EngineBuild, ...]:
    """Build the planned files that are missing in ``runs``; how each was built, or why not.

    ``make_plan``: the plan in a mode, of the same files in each. ``files``: folder that
    ``write_files`` writes the networks of the missing ones into. A mode that cannot be set now is
    left out for the next one. Raises what keeps all from being built.
    """
    engine_files, ranked = EngineFiles(runs), highest_first(modes)
    trials = {trial.engine_file: trial for trial in make_plan(ranked[0]).trials}
    missing = [trial for name, trial in trials.items() if engine_files.find(name) is None]
    for trial in missing:
        if engine_files.is_changed(trial.engine_file):
            reporter.note(f"{trial.engine_file}: it is not what was built, and is rebuilt")
    write = partial(write_files, missing)
    for mode in ranked if missing else []:
        plan = make_plan(mode)
        planned = ModePlan(
            *(plan, tuple(missing), files, write),
            subject="engine files",
            is_bounded=False,
            engine_files=engine_files,
        )
        try:
            measure_modes([planned], target, engine_files.folder, reporter)
        except (ControllerLost, DeniedError):
            raise
        except DeviceError as error:
            if mode is ranked[-1]:
                raise
            reporter.note(f"{mode.name}: no engine files are built in it: {error}")
        else:
            break
    rows = tuple(row for name in trials if (row := engine_files.row(name)) is not None)
    for row in rows:
        if row.engine_file in {trial.engine_file for trial in missing}:
            reporter.note(_outcome(row))
    return rows


def _outcome(row: EngineBuild) -> str:
    """What became of a build, in one line."""
    batch = "" if row.batch is None else f" × {row.batch}"
    name = f"{row.model}{batch} {row.precision}"
    if row.failure is not None:
        return f"{name}: not built: {row.failure}"
    parts = [f"{(row.engine_bytes or 0) / 1e6:.1f} MB in {row.build_s or 0:.1f} s"]
    if row.timing_cache == "used":
        parts.append("with the timing cache of an earlier build")
    if row.dla_share is not None:
        parts.append(f"the DLA can run {row.dla_share:.0%} of its layers")
    return f"{name}: built {row.engine_file}: {', '.join(parts)}"
