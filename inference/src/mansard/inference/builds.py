"""The kind of measurement "builds": an engine writes the file that a later process loads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mansard.core.documents import read_document
from mansard.core.errors import InputError, MeasurementError, SchemaError, StorageError
from mansard.core.files import make_folder, move_over, open_file, storage_errors
from mansard.core.hashing import content_hash, stream_hash
from mansard.core.records import EngineBuild, Gpu, MachineIdentity
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import BuildingEngine, Built
from mansard.inference.plan import BuildPlan, BuildSettings, BuildTrial
from mansard.measuring.instruments import Instruments, utc_now
from mansard.measuring.kind import MeasurementKind, Opened

_BUILDING_S = 4 * 3600.0  # at most, of one network; the measurement is taken for hung after that
_KEY_CHARACTERS = 12
CACHES = "caches"  # in the folder of outputs: what an engine keeps from one build to the next
NOT_BUILT = "it could not be built"  # that the failure of its measurement begins with
_OF_DEVICE = BuildSettings()
_OF_A_FILE = ("engine_hash", "engine_bytes", "build_s", "timing_cache", "n_layers", "dla_share")


@dataclass(frozen=True)
class _Took:
    """When a build began, or was found dead, and how long it took."""

    started_utc: str
    duration_s: float


def device_name(
    gpu: Gpu | None, machine: MachineIdentity, settings: BuildSettings = _OF_DEVICE
) -> str:
    """The device that engine files are built for, in words: its name and compute capability."""
    if settings.compute_capability is not None:
        return f"compute capability {settings.compute_capability}"
    if gpu is None:
        return f"the CPUs of {machine.name}"
    return f"{gpu.name}, compute capability {gpu.sm // 10}.{gpu.sm % 10}"


def engine_key(trial: BuildTrial, version: str, device: str) -> str:
    """The key in an engine file's name: equal exactly when the same file would be built again."""
    settings = trial.settings
    what = [trial.file_hash, settings.calibration_hash, settings, trial.precision]
    shapes = {spec.name: (spec.type_name, spec.shape) for spec in trial.input_specs}
    return content_hash([*what, shapes, trial.engine, version, device])[:_KEY_CHARACTERS]


def row_name(engine_file: str) -> str:
    """The name of the document that says how an engine file was built, or why it was not."""
    return f"{engine_file}.json"


def check_engine_file(
    folder: Path, engine_file: str, version: str, gpu: Gpu | None, machine: MachineIdentity
) -> dict[str, str]:
    """The options that the file in ``folder`` was built with.

    Raises MeasurementError unless it is of this version and this device.
    """
    try:
        row = read_document(folder / row_name(engine_file), EngineBuild)
    except (SchemaError, StorageError) as error:
        raise MeasurementError(error.what, where=row_name(engine_file)) from error
    if row.failure is not None:
        raise MeasurementError(f"{NOT_BUILT}: {row.failure}")
    device = device_name(gpu, machine)
    if (row.engine_version, row.device) != (version, device):
        raise MeasurementError(
            f"it was built by {row.engine} {row.engine_version} for {row.device}, "
            f"here is {version} on {device}",
            where=engine_file,
        )
    path = folder / engine_file
    if not path.is_file() or path.stat().st_size != row.engine_bytes:
        raise MeasurementError("there is no such file, or only a part of it", where=str(path))
    return dict(row.options)


def build_engine_file(
    spec: BuildTrial,
    plan: BuildPlan,
    run_id: str,
    instruments: Instruments,
    engine: BuildingEngine,
) -> EngineBuild:
    """Build one engine file of run ``run_id``; what cannot be built is a row with ``failure``.

    Raises MeasurementError where no folders were given, or where one lacks the ONNX file.
    """
    folder, into = instruments.files, instruments.outputs
    if folder is None or into is None:
        raise MeasurementError("no folder of networks and engines was given", fix="report this")
    for name in filter(None, (spec.file, spec.settings.calibration_file)):
        if not (folder / name).is_file():
            raise MeasurementError("there is no such file", where=str(folder / name))
    built, failure = None, ""
    started_utc, start_s = utc_now(), time.monotonic()
    instruments.announce(spec.title, _BUILDING_S)
    caches = make_folder(into / CACHES)
    try:
        built = engine.build(spec, folder, caches, instruments.announce)
        move_over(caches / spec.engine_file, into / spec.engine_file)
    except (MeasurementError, InputError) as error:
        failure = str(error)
    except MemoryError:
        failure = "too little memory"
    took = _Took(started_utc, time.monotonic() - start_s)
    return _row(spec, plan, run_id, took, failure, built=built, into=into)


def _row(
    spec: BuildTrial,
    plan: BuildPlan,
    run_id: str,
    took: _Took,
    failure: str,
    *,
    built: Built | None = None,
    into: Path | None = None,
) -> EngineBuild:
    unknown = dict(built.unknown) if built else {}
    if spec.batch is None:
        unknown["batch"] = spec.unknown["batch"]
    if built is None or into is None:
        unknown |= dict.fromkeys(_OF_A_FILE, f"{NOT_BUILT}: {failure}")
        engine_hash, engine_bytes = None, None
    else:
        unknown["failure"] = "it was built"
        written = into / spec.engine_file
        with storage_errors(written), open_file(written) as stream:
            engine_hash, engine_bytes = stream_hash(stream), stream.tell()
    return EngineBuild(
        run_id=run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        model=spec.model,
        model_hash=spec.model_hash,
        file_hash=spec.file_hash,
        engine=spec.engine,
        engine_version=plan.versions[find_engine(spec.engine).package],
        device=device_name(plan.gpu, plan.machine, spec.settings),
        precision=spec.precision,
        batch=spec.batch,
        dimensions=spec.dimensions,
        options=dict(built.options) if built else {},
        engine_file=spec.engine_file,
        engine_hash=engine_hash,
        engine_bytes=engine_bytes,
        build_s=took.duration_s if built else None,
        timing_cache=built.timing_cache if built else None,
        n_layers=built.n_layers if built else None,
        dla_share=built.dla_share if built else None,
        remarks=built.remarks if built else (),
        failure=None if built else failure,
        started_utc=took.started_utc,
        duration_s=took.duration_s,
        unknown=unknown,
    )


@contextmanager
def _open(plan: BuildPlan) -> Iterator[Opened[EngineBuild]]:
    """Raises MeasurementError where an engine of the plan cannot build in this process."""
    engines = {name: _builder(name) for name in {spec.engine for spec in plan.trials}}
    run_id = plan.run_id

    def measure(spec: BuildTrial, instruments: Instruments) -> EngineBuild:
        return build_engine_file(spec, plan, run_id, instruments, engines[spec.engine])

    yield Opened(measure, plan.gpu, plan.unknown.get("gpu", ""))


def _builder(name: str) -> BuildingEngine:
    engine = find_engine(name)
    if not isinstance(engine, BuildingEngine):
        raise MeasurementError(f"{name} builds no engine files", fix="report this")
    probe = engine.probe()
    if probe.version is None:
        raise MeasurementError(
            f"{name} is not here: {probe.unknown['version']}",
            fix="'mansard doctor' says what is missing",
        )
    return engine


def _crashed(plan: BuildPlan, spec: BuildTrial, how: str, duration_s: float) -> EngineBuild:
    """The row of a build that the process did not survive."""
    return _row(spec, plan, plan.run_id, _Took(utc_now(), duration_s), how)


BUILDS: MeasurementKind[BuildPlan, EngineBuild] = MeasurementKind(
    "builds",
    BuildPlan,
    EngineBuild,
    _open,
    rows_name="builds.jsonl",
    crashed=_crashed,
    most_events=10_000,  # a builder tells its progress every 2 s, for hours
    is_metered=False,
)
