"""The kind of measurement "builds": an engine writes the file that a later process loads."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mansard.core.errors import (
    InputError,
    MeasurementError,
    SchemaError,
    StorageError,
    TransientError,
)
from mansard.core.hashing import content_hash, stream_hash
from mansard.core.records import EngineBuild, Gpu, MachineIdentity
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import make_folder, move_over, open_file, storage_errors
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import BuildingEngine
from mansard.inference.plan import BUILDING_S, BuildPlan, BuildSettings, BuildTrial, NetworkTrial
from mansard.inference.rows import NOT_BUILT, NOT_BUILT_NOW, head, why_no_batch
from mansard.measuring.instruments import Instruments, Took, utc_now
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.plan import RunPlan

_KEY_CHARACTERS = 12
CACHES = "caches"  # in the folder of outputs: what an engine keeps from one build to the next
_UNSAFE = re.compile(r"[^A-Za-z0-9.+-]+")
_NAME_CHARACTERS = 120
_OF_DEVICE = BuildSettings()
_OF_A_FILE = ("engine_hash", "engine_bytes", "build_s", "timing_cache", "n_layers", "dla_share")


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
    """The key in an engine file's name: equal for builds that would give the same file."""
    settings = trial.settings
    what = [trial.file_hash, settings.calibration_hash, settings, trial.precision]
    shapes = {spec.name: (spec.type_name, spec.shape) for spec in trial.input_specs}
    return content_hash([*what, shapes, trial.engine, version, device])[:_KEY_CHARACTERS]


def caches_name(plan: BuildPlan) -> str:
    """The folder in ``CACHES`` for builds of this plan: one for each version and device."""
    engine = find_engine(plan.trials[0].engine)
    device = device_name(plan.gpu, plan.machine)
    words = f"{engine.name}-{plan.versions[engine.package]}-{device}"
    return _UNSAFE.sub("_", words)[:_NAME_CHARACTERS]


def row_name(engine_file: str) -> str:
    """The name of the document with an engine file's row: how it was built, or why it was not."""
    return f"{engine_file}.json"


def is_as_built(path: Path, row: EngineBuild) -> bool:
    """Whether an engine file has the content that its row names.

    A process reads a file once, and again only where its size, its times or its place changed.
    """
    with storage_errors(path):
        status = path.stat()
        if status.st_size != row.engine_bytes:
            return False
        seen = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return _hash_of(path, (*seen, status.st_ctime_ns)) == row.engine_hash


@lru_cache(maxsize=256)
def _hash_of(path: Path, _seen: tuple[int, ...]) -> str:
    with open_file(path) as stream:
        return stream_hash(stream)


def built_options(network: NetworkTrial, plan: RunPlan, folder: Path) -> dict[str, str]:
    """The options that the engine file of ``network`` in ``folder`` was built with, by its row.

    With ``dla_share``, the share of its layers that a DLA core runs, where it was built for one.

    None where it needs no such file. Raises MeasurementError unless it is of this version and this
    device.
    """
    name = network.engine_file
    if not name:
        return {}
    try:
        row = read_document(folder / row_name(name), EngineBuild)
    except (SchemaError, StorageError) as error:
        raise MeasurementError(error.what, where=row_name(name)) from error
    if row.engine_file != name:
        raise MeasurementError(f"it was built as {row.engine_file}", where=name)
    if row.failure is not None:
        how = NOT_BUILT_NOW if row.is_transient else NOT_BUILT
        raise MeasurementError(f"{how}: {row.failure}")
    version = plan.versions[find_engine(network.engine).package]
    device = device_name(plan.gpu, plan.machine)
    if (row.engine_version, row.device) != (version, device):
        raise MeasurementError(
            f"it was built by {row.engine} {row.engine_version} for {row.device}, "
            f"here is {version} on {device}",
            where=name,
        )
    path = folder / name
    if not path.is_file() or path.stat().st_size != row.engine_bytes:
        raise MeasurementError("there is no such file, or only a part of it", where=str(path))
    if not is_as_built(path, row):
        raise MeasurementError(
            "it is not the file that was built: its content changed",
            where=str(path),
            fix="run the same command again to rebuild it",
        )
    share = {} if row.dla_share is None else {"dla_share": f"{row.dla_share:.3g}"}
    return {**row.options, **share}


def build_engine_file(
    spec: BuildTrial, plan: BuildPlan, instruments: Instruments, engine: BuildingEngine
) -> EngineBuild:
    """Build one engine file; where that fails, the row has a ``failure``.

    Raises MeasurementError where no folders were given, or the ONNX file is missing.
    """
    folder, into = instruments.files, instruments.outputs
    if folder is None or into is None:
        raise MeasurementError("no folder of networks and engines was given", fix="report this")
    for name in filter(None, (spec.file, spec.settings.calibration_file)):
        if not (folder / name).is_file():
            raise MeasurementError("there is no such file", where=str(folder / name))
    started_utc, start_s = utc_now(), time.monotonic()
    instruments.announce(spec.title, BUILDING_S)
    caches = make_folder(into / CACHES / caches_name(plan))
    failed: Exception | None = None
    try:
        # Under a hidden name: meanwhile the caches of the build before it are copied.
        hidden = replace(spec, engine_file=f".{spec.engine_file}")
        built = engine.build(hidden, folder, caches, instruments.announce)
        move_over(caches / hidden.engine_file, into / spec.engine_file)
    except (MeasurementError, InputError) as error:
        failed = error
    except MemoryError:
        failed = TransientError("too little memory")
    took = Took(time.monotonic() - start_s, started_utc)
    if failed is not None:
        return _failed(spec, plan, took, failed)
    written = into / spec.engine_file
    with storage_errors(written), open_file(written) as stream:
        engine_hash, engine_bytes = stream_hash(stream), stream.tell()
    return EngineBuild(
        **_head(spec, plan, took),
        options=dict(built.options),
        engine_hash=engine_hash,
        engine_bytes=engine_bytes,
        build_s=took.duration_s,
        timing_cache=built.timing_cache,
        n_layers=built.n_layers,
        dla_share=built.dla_share,
        remarks=built.remarks,
        failure=None,
        unknown={**why_no_batch(spec), **built.unknown, "failure": "it was built"},
    )


def _failed(spec: BuildTrial, plan: BuildPlan, took: Took, error: Exception) -> EngineBuild:
    absent: dict[str, Any] = dict.fromkeys(_OF_A_FILE)
    return EngineBuild(
        **_head(spec, plan, took),
        **absent,
        options={},
        remarks=(),
        failure=str(error),
        is_transient=isinstance(error, TransientError),
        unknown={**why_no_batch(spec), **dict.fromkeys(_OF_A_FILE, f"{NOT_BUILT}: {error}")},
    )


def _head(spec: BuildTrial, plan: BuildPlan, took: Took) -> dict[str, Any]:
    return {
        **head(spec, plan),
        "file_hash": spec.file_hash,
        "device": device_name(plan.gpu, plan.machine, spec.settings),
        "engine_file": spec.engine_file,
        "started_utc": took.started_utc,
        "duration_s": took.duration_s,
    }


@contextmanager
def _open(plan: BuildPlan) -> Iterator[Opened[EngineBuild]]:
    """Raises MeasurementError where an engine of the plan cannot build in this process."""
    engines = {name: _builder(name) for name in {spec.engine for spec in plan.trials}}

    def measure(spec: BuildTrial, instruments: Instruments) -> EngineBuild:
        return build_engine_file(spec, plan, instruments, engines[spec.engine])

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


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
    """The row of a build whose process died."""
    return _failed(spec, plan, Took(duration_s), TransientError(how))


BUILDS: MeasurementKind[BuildPlan, EngineBuild] = MeasurementKind(
    "builds",
    BuildPlan,
    EngineBuild,
    _open,
    rows_name="builds.jsonl",
    crashed=_crashed,
    most_events=10_000,  # a builder reports its progress every 2 s, for hours
    is_metered=False,
)
