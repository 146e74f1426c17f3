"""Engine files that networks are run from: which engine, how they are built, and when.

They are built before a mode is measured, once for all modes, in the highest of those that are
measured: the builder times kernels there, and takes the least time. No mode is set that was not
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.measurements import ModePlan, measure_modes
from mansard.api.reporter import Reporter
from mansard.api.targets import BenchTarget
from mansard.core.errors import (
    ControllerLost,
    DeniedError,
    DeviceError,
    MeasurementError,
    UsageError,
)
from mansard.core.records import PowerMode

if TYPE_CHECKING:
    from mansard.core.records import EngineBuild, MachineIdentity
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildPlan, BuildSettings, BuildTrial, ShapeRange
    from mansard.inference.preparing.prepare import PreparedNetwork

# In the order in which they are taken on a Jetson where none is named.
_OF_JETSON = ("tensorrt", "trtexec", "ort")
STAND_IN = "+stand-in"  # that the version of a stand-in of an engine ends with


class BuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How engine files are built; None: as the builder does by itself."""

    optimization_level: int | None = None
    workspace_bytes: int | None = None
    dla_core: int | None = None  # None: the GPU
    with_fallback: bool = True  # to the GPU, of layers that the DLA lacks
    is_dynamic: bool = False  # one engine file for all batches of a network

    def settings(self) -> BuildSettings:
        """The same for the plan of a build."""
        from mansard.inference.plan import BuildSettings

        return BuildSettings(
            optimization_level=self.optimization_level,
            workspace_bytes=self.workspace_bytes,
            dla_core=self.dla_core,
            with_fallback=self.with_fallback,
        )

    def check(self, engine: str) -> None:
        """Raises UsageError where the engine has no use for them, or they exclude one another."""
        if self != BuildOptions() and not builds_files(engine):
            raise UsageError(
                f"{engine} loads ONNX files: there is no engine file to build with these options",
                fix="leave --dla, --no-fallback, --opt-level, --workspace and --dynamic out, or "
                "use --engine tensorrt",
            )
        if self.is_dynamic and self.dla_core is not None:
            raise UsageError(
                "a DLA core runs networks of fixed shapes alone", fix="leave --dynamic out"
            )


def serving(networks: Sequence[PreparedNetwork], opened: PreparedNetwork) -> dict[str, ShapeRange]:
    """The ranges of the open dimensions of ``opened`` in an engine file for all of ``networks``.

    ``opened``: the same network with its batch left open, at the usual batch; ``networks``: it at
    every batch. Raises UsageError where its file fixes the batch.
    """
    from mansard.inference.plan import ShapeRange

    shapes = [{spec.name: spec.shape for spec in network.input_specs} for network in networks]
    usual = {spec.name: spec.shape for spec in opened.input_specs}
    is_open = [name for name, shape in opened.recipe.shapes.items() if -1 in shape]
    if not is_open:
        raise UsageError(
            f"{opened.model} has a fixed batch", fix="leave --dynamic out, or export it again"
        )
    return {
        name: ShapeRange(
            least=min(each[name] for each in shapes),
            usual=usual[name],
            most=max(each[name] for each in shapes),
        )
        for name in is_open
    }


def choose_engine(
    target: BenchTarget, machine: MachineIdentity, wanted: str | None, reporter: Reporter
) -> EngineProbe:
    """What is known of the engine that is ``wanted``, or of the best one that the board has.

    That is TensorRT on a Jetson, by its bindings or by trtexec, else ONNX Runtime; a simulated
    board has no GPU that TensorRT could run on. Raises MeasurementError where a stand-in is found
    on a machine that is none.
    """
    is_jetson = machine.kind == "jetson" and not machine.is_simulated
    names = (wanted,) if wanted else _OF_JETSON if is_jetson else ("ort",)
    absent = []
    for name in names:
        probe = target.engine_probe(name)
        if is_stand_in(probe) and not machine.is_simulated:
            raise MeasurementError(
                f"{name} {probe.version} is a stand-in for simulated boards, "
                f"and {machine.name} is none",
                fix="install the real one, or unset MANSARD_TENSORRT",
            )
        if probe.providers is not None:
            break
        absent.append(f"{name} is not there ({probe.unknown['providers']})")
    if absent and probe.providers is not None:
        reporter.note(f"note: the networks run on {probe.engine}: {'; '.join(absent)}")
    return probe


def is_stand_in(probe: EngineProbe) -> bool:
    """Whether it is a stand-in of the engine, which runs networks on the CPU."""
    return (probe.version or "").endswith(STAND_IN)


def builds_files(engine: str) -> bool:
    """Whether an engine runs networks from files that it built before."""
    from mansard.inference.engines import find_engine
    from mansard.inference.engines.engine import BuildingEngine

    return isinstance(find_engine(engine), BuildingEngine)


def highest_first(modes: Sequence[PowerMode]) -> list[PowerMode]:
    """``modes`` by their caps of GPU, memory and CPU, the highest first; without a cap first."""

    def caps(mode: PowerMode) -> tuple[float, ...]:
        found = (mode.gpu_hz, mode.memory_hz, mode.cpu_hz)
        return (*(math.inf if cap is None else cap for cap in found), mode.n_cpus)

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
    """Build what is planned and ``runs`` lacks; how each engine file was built, or why not.

    ``make_plan``: the plan in a mode, of the same files in each. ``files``: folder that
    ``write_files`` writes the networks of the missing ones into. A mode that cannot be set now is
    left out for the next one. Raises what keeps all from being built.
    """
    from mansard.inference.engine_files import EngineFiles

    kept, ranked = EngineFiles(runs), highest_first(modes)
    trials = make_plan(ranked[0]).trials
    missing = [trial for trial in trials if kept.find(trial.engine_file) is None]
    if missing:
        for number, mode in enumerate(ranked):
            plan = make_plan(mode)
            write = partial(write_files, missing)
            each = ModePlan(
                plan, len(missing), files, write, of="engine files", is_bounded=False, kept=kept
            )
            try:
                measure_modes([each], target, kept.folder, reporter)
            except (ControllerLost, DeniedError):
                raise
            except DeviceError as error:
                if number == len(ranked) - 1:
                    raise
                reporter.note(f"{mode.name}: no engine files are built in it: {error}")
            else:
                break
    built = {trial.engine_file for trial in missing}
    rows = tuple(row for trial in trials if (row := kept.row(trial.engine_file)) is not None)
    for row in rows:
        if row.engine_file in built:
            reporter.note(_told(row))
    return rows


def _told(row: EngineBuild) -> str:
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
