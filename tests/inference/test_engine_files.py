"""Engine files in the folder of runs: kept whole, told again without a build, built anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from mansard.core.errors import MeasurementError, SchemaError, StorageError
from mansard.core.hashing import file_hash
from mansard.core.power_mode import core_count_mode
from mansard.core.records import EngineBuild, Gpu
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.jsonl import read_rows
from mansard.device.conditions import find_sources
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS
from mansard.device.system import SYSTEM_ROOT
from mansard.inference.builds import (
    BUILDS,
    CACHES,
    build_engine_file,
    built_options,
    caches_name,
    device_name,
    engine_key,
    row_name,
)
from mansard.inference.engine_files import EngineFiles, FolderOutputs
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import BuildingEngine, Built
from mansard.inference.engines.tensorrt import messages
from mansard.inference.plan import BuildPlan, BuildSettings, BuildTrial, make_plan
from mansard.measuring.events import Done, Event, Row, started
from mansard.measuring.instruments import Instruments
from mansard.measuring.kind import Job
from mansard.measuring.runner import run_plan
from tests.inference import small_networks
from tests.inference.small_networks import uniform

MACHINE = identify()
CONTENT = b"the engine of "
SETTINGS = BuildSettings()


def build(model: str, **changes: object) -> BuildTrial:
    made = BuildTrial(
        model=model,
        model_hash="0" * 16,
        file=f"{model}.onnx",
        file_hash="1" * 16,
        input_specs=(uniform("x", (1, 8)),),
        precision="fp16",
        batch=1,
        dimensions={},
        engine="ort",  # any that is there: nothing is built by it here
        settings=SETTINGS,
        engine_file=f"{model}.engine",
    )
    return msgspec.structs.replace(made, **changes)


def plan_of(*trials: BuildTrial) -> BuildPlan:
    probe = find_engine("ort").probe()
    return make_plan(BuildPlan, MACHINE, core_count_mode(1), trials, probe.versions, None)


class Builder:
    """Writes what a builder writes, and counts it; of ``failing`` networks a row says why not."""

    def __init__(
        self,
        folder: Path,
        failing: str = "",
        ending: str = "",
        torn: str = "",
        misnamed: str = "",
        *,
        is_transient: bool = False,
    ) -> None:
        self.folder, self.failing, self.ending, self.torn = folder, failing, ending, torn
        self.misnamed = misnamed  # the file that its rows name
        self.is_transient = is_transient  # whether a failure is for now
        self.built: list[str] = []

    def __call__(self, job: Job) -> Iterator[Event]:
        yield started(job.plan.versions, NO_METERS, None, "on the CPU")
        for spec in job.plan.trials:
            assert isinstance(spec, BuildTrial)
            if spec.trial_id in job.missing:
                if spec.model == self.ending:
                    raise KeyboardInterrupt
                yield Row(self._row(spec, job))
        yield Done()

    def _row(self, spec: BuildTrial, job: Job) -> EngineBuild:
        self.built.append(spec.model)
        content = CONTENT + spec.model.encode()
        is_failing = spec.model == self.failing
        if not is_failing:
            (self.folder / spec.engine_file).write_bytes(
                content[:-1] if spec.model == self.torn else content
            )
        assert isinstance(job.plan, BuildPlan)
        caches = self.folder / CACHES / caches_name(job.plan)
        seen = (caches / "timing.cache").read_bytes()
        (caches / "timing.cache").write_bytes(seen + b"+")
        unknown = {"dla_share": "it is built for the GPU"}
        if is_failing:
            absent = ("engine_hash", "engine_bytes", "build_s", "timing_cache", "n_layers")
            unknown |= dict.fromkeys(absent, "it could not be built")
        else:
            unknown["failure"] = "it was built"
        return EngineBuild(
            run_id=job.plan.run_id,
            trial_id=spec.trial_id,
            source="measured",
            model=spec.model,
            model_hash=spec.model_hash,
            file_hash=spec.file_hash,
            engine=spec.engine,
            engine_version="10.3.0",
            device=device_name(None, MACHINE),
            precision=spec.precision,
            batch=spec.batch,
            dimensions={},
            options={},
            engine_file=self.misnamed or spec.engine_file,
            engine_hash=None if is_failing else file_hash(content),
            engine_bytes=None if is_failing else len(content),
            build_s=None if is_failing else 2.0,
            timing_cache=None if is_failing else "new",
            n_layers=None if is_failing else 3,
            dla_share=None,
            remarks=(),
            failure="out of memory" if is_failing else None,
            is_transient=is_failing and self.is_transient,
            started_utc="2026-01-01T00:00:00+00:00",
            duration_s=2.0,
            unknown=unknown,
        )


@pytest.fixture
def kept(tmp_path: Path) -> EngineFiles:
    found = EngineFiles(tmp_path / "runs")
    caches = caches_of(found)
    caches.mkdir(parents=True)
    (caches / "timing.cache").write_bytes(b"known")
    return found


def caches_of(kept: EngineFiles) -> Path:
    return kept.folder / CACHES / caches_name(plan_of(build("a")))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    return folder


def run(kept: EngineFiles, builder: Builder, *trials: BuildTrial) -> list[EngineBuild]:
    plan, measurer = plan_of(*trials), kept.building(builder, FolderOutputs(builder.folder))
    done = run_plan(
        plan,
        kept.folder,
        measurer=measurer,
        is_there=lambda row: kept.find(row.engine_file) is not None,
    )
    return list(read_rows(done.folder / "builds.jsonl", EngineBuild).rows)


def options_of(
    name: str, folder: Path, version: str = "10.3.0", gpu: Gpu | None = None
) -> dict[str, str]:
    """What a measurement on this version and device is told of the engine file."""
    trial = small_networks.trial("a.onnx", uniform("x", (1, 8)), engine_file=name)
    plan = small_networks.plan(trial)
    changes = {"gpu": gpu, "unknown": {}} if gpu is not None else {}
    versions = {**plan.versions, "onnxruntime": version}
    plan = msgspec.structs.replace(plan, versions=versions, **changes)
    return built_options(trial, plan, folder)


def test_a_file_its_row_and_its_caches_are_kept(kept: EngineFiles, outputs: Path) -> None:
    (row,) = run(kept, Builder(outputs), build("a"))
    assert (kept.folder / "a.engine").read_bytes() == b"the engine of a"
    assert kept.find("a.engine") == row
    assert read_document(kept.folder / "a.engine.json", EngineBuild) == row
    assert (caches_of(kept) / "timing.cache").read_bytes() == b"known+"


def test_caches_of_other_devices_and_versions_are_not_touched(
    kept: EngineFiles, outputs: Path
) -> None:
    plan = plan_of(build("a"))
    newer = msgspec.structs.replace(plan, versions={**plan.versions, "onnxruntime": "99.0"})
    names = {caches_name(plan), caches_name(newer)}
    names.add(caches_name(msgspec.structs.replace(plan, gpu=ORIN, unknown={})))
    assert len(names) == 3
    other = kept.folder / CACHES / caches_name(newer)
    other.mkdir()
    (other / "timing.cache").write_bytes(b"other")
    run(kept, Builder(outputs), build("a"))
    assert [path.name for path in (outputs / CACHES).iterdir()] == [caches_name(plan)]
    assert (other / "timing.cache").read_bytes() == b"other"


def test_what_an_earlier_run_built_is_told_and_not_built(kept: EngineFiles, outputs: Path) -> None:
    (first,) = run(kept, Builder(outputs), build("a"))
    builder = Builder(outputs)
    rows = run(kept, builder, build("a"), build("b"))
    assert builder.built == ["b"]
    assert sorted(row.model for row in rows) == ["a", "b"]
    again = next(row for row in rows if row.model == "a")
    assert again.run_id != first.run_id
    assert again.started_utc == first.started_utc


def test_a_run_that_is_ended_resumes_after_its_last_file(kept: EngineFiles, outputs: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(kept, Builder(outputs, ending="b"), build("a"), build("b"))
    assert kept.find("b.engine") is None
    builder = Builder(outputs)
    assert len(run(kept, builder, build("a"), build("b"))) == 2
    assert builder.built == ["b"]


def test_a_file_that_is_gone_or_cut_off_is_built_again(kept: EngineFiles, outputs: Path) -> None:
    run(kept, Builder(outputs), build("a"), build("b"))
    (kept.folder / "a.engine").unlink()
    (kept.folder / "b.engine").write_bytes(b"the engine")
    builder = Builder(outputs)
    assert len(run(kept, builder, build("a"), build("b"))) == 2
    assert builder.built == ["a", "b"]


def check_refused(kept: EngineFiles, folder: Path, why: str) -> None:
    """The engine file "a" is not run in ``folder``."""
    folder.mkdir()
    kept.link(["a.engine"], folder)
    with pytest.raises(MeasurementError, match=why):
        options_of("a.engine", folder)


@pytest.mark.parametrize("at", [0, 7, 14])
def test_a_file_with_one_byte_changed_is_not_run_and_built_again(
    kept: EngineFiles, outputs: Path, tmp_path: Path, at: int
) -> None:
    (row,) = run(kept, Builder(outputs), build("a"))
    assert not kept.is_changed("a.engine")
    path = kept.folder / "a.engine"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert kept.is_changed("a.engine")
    check_refused(kept, tmp_path / "board", "its content changed; run the same command again")
    builder = Builder(outputs)
    (again,) = run(kept, builder, build("a"))
    assert builder.built == ["a"]
    assert again.engine_hash == row.engine_hash
    assert not kept.is_changed("a.engine")


def test_a_failure_is_kept_and_not_tried_again(kept: EngineFiles, outputs: Path) -> None:
    run(kept, Builder(outputs, failing="a"), build("a"), build("b"))
    found = kept.find("a.engine")
    assert found is not None
    assert found.failure == "out of memory"
    builder = Builder(outputs)
    run(kept, builder, build("a"), build("c"))
    assert builder.built == ["c"]


def test_a_failure_of_the_moment_is_tried_again(
    kept: EngineFiles, outputs: Path, tmp_path: Path
) -> None:
    run(kept, Builder(outputs, failing="a", is_transient=True), build("a"))
    row = kept.row("a.engine")
    assert row is not None
    assert (row.failure, row.is_transient) == ("out of memory", True)
    assert kept.find("a.engine") is None
    check_refused(kept, tmp_path / "board", "could not be built now: out of memory")
    builder = Builder(outputs)
    (row,) = run(kept, builder, build("a"))
    assert builder.built == ["a"]
    assert kept.find("a.engine") == row


def test_a_file_that_arrives_in_part_has_no_row(kept: EngineFiles, outputs: Path) -> None:
    with pytest.raises(StorageError, match="not what was built"):
        run(kept, Builder(outputs, torn="a"), build("a"))
    assert kept.find("a.engine") is None


def test_what_arrives_in_part_takes_no_place_beside_an_older_row(
    kept: EngineFiles, outputs: Path
) -> None:
    run(kept, Builder(outputs), build("a"))
    (kept.folder / "a.engine").unlink()
    with pytest.raises(StorageError, match="not what was built"):
        run(kept, Builder(outputs, torn="a"), build("a"))
    assert not (kept.folder / "a.engine").exists()


def test_a_row_that_names_another_file_replaces_none(kept: EngineFiles, outputs: Path) -> None:
    run(kept, Builder(outputs), build("a"))
    before = (kept.folder / "a.engine").read_bytes()
    with pytest.raises(SchemaError, match="was not requested"):
        run(kept, Builder(outputs, misnamed="a.engine"), build("b"))
    assert (kept.folder / "a.engine").read_bytes() == before


def test_a_row_of_another_version_of_mansard_is_built_anew(
    kept: EngineFiles, outputs: Path
) -> None:
    run(kept, Builder(outputs), build("a"))
    path = kept.folder / "a.engine.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 99'))
    assert kept.find("a.engine") is None


def test_a_pair_that_was_renamed_by_hand_is_built_anew_and_not_loaded(
    kept: EngineFiles, outputs: Path
) -> None:
    run(kept, Builder(outputs), build("a"))
    for ending in ("", ".json"):
        (kept.folder / f"a.engine{ending}").rename(kept.folder / f"b.engine{ending}")
    assert kept.find("b.engine") is None
    with pytest.raises(MeasurementError, match=r"was built as a\.engine"):
        options_of("b.engine", kept.folder)


@pytest.mark.parametrize("name", ["../../x", "../a.engine", "/etc/passwd", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_none_of_ours(kept: EngineFiles, name: str) -> None:
    assert kept.find(name) is None


def test_links_lead_to_files_and_rows(kept: EngineFiles, outputs: Path, tmp_path: Path) -> None:
    run(kept, Builder(outputs, failing="b"), build("a"), build("b"))
    folder = tmp_path / "board"
    folder.mkdir()
    for _ in range(2):  # a second mode finds them there
        kept.link(["a.engine", "b.engine"], folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["a.engine", "a.engine.json", "b.engine.json"]
    options_of("a.engine", folder)
    with pytest.raises(MeasurementError, match="could not be built: out of memory"):
        options_of("b.engine", folder)


ORIN = Gpu(
    name="Orin",
    sm=87,
    n_sms=16,
    l1_bytes=None,
    l2_bytes=None,
    memory_bytes=None,
    memory_bus_bits=None,
    memory_hz=None,
    gpu_hz=None,
    is_integrated=True,
    ecc=None,
    mig=None,
    driver_cuda=None,
    runtime_cuda=None,
    unknown=dict.fromkeys(
        (
            *("l1_bytes", "l2_bytes", "memory_bytes", "memory_bus_bits", "memory_hz", "gpu_hz"),
            *("ecc", "mig", "driver_cuda", "runtime_cuda"),
        ),
        "not asked",
    ),
)


def test_a_plan_has_the_gpu_as_it_is_before_the_mode_is_set() -> None:
    """So that a mode with other SMs, which only a reboot leads back from, is left out."""
    given = core_count_mode(1)
    unknown = {name: why for name, why in given.unknown.items() if name != "n_sms"}
    mode = msgspec.structs.replace(given, n_sms=8, unknown=unknown)
    plan = make_plan(
        BuildPlan, MACHINE, mode, (build("a"),), find_engine("ort").probe().versions, ORIN
    )
    assert plan.gpu == ORIN
    assert plan.gpu_in_mode == msgspec.structs.replace(ORIN, n_sms=8)


@pytest.mark.parametrize(("version", "gpu"), [("10.7.0", None), ("10.3.0", ORIN)])
def test_of_another_version_or_device_it_check_refused(
    kept: EngineFiles, outputs: Path, version: str, gpu: Gpu | None
) -> None:
    run(kept, Builder(outputs), build("a"))
    with pytest.raises(MeasurementError, match=r"was built by ort 10\.3\.0 for the CPUs of"):
        options_of("a.engine", kept.folder, version, gpu)


def test_a_file_that_is_cut_off_check_refused(kept: EngineFiles, outputs: Path) -> None:
    run(kept, Builder(outputs), build("a"))
    (kept.folder / "a.engine").write_bytes(b"the")
    with pytest.raises(MeasurementError, match="only a part"):
        options_of("a.engine", kept.folder)


def test_a_device_is_told_by_name_and_compute_capability() -> None:
    assert device_name(ORIN, MACHINE) == "Orin, compute capability 8.7"


@pytest.mark.parametrize(
    "changes",
    [
        {"file_hash": "2" * 16},
        {"precision": "int8"},
        {"engine": "trtexec"},
        {"input_specs": (uniform("x", (8, 8)),)},
        {"settings": BuildSettings(dla_core=0)},
        {"settings": BuildSettings(optimization_level=5)},
        {"settings": BuildSettings(calibration_hash="3" * 16)},
    ],
)
def test_the_key_tells_apart_whatever_changes_a_file(changes: dict[str, object]) -> None:
    before = engine_key(build("a"), "10.3.0", "Orin, compute capability 8.7")
    changed = build("a", **changes)
    assert engine_key(changed, "10.3.0", "Orin, compute capability 8.7") != before
    assert engine_key(build("a"), "10.7.0", "Orin, compute capability 8.7") != before
    assert engine_key(build("a"), "10.3.0", "Orin, compute capability 8.6") != before
    # What a network is called does not change what is built of it.
    assert engine_key(build("b"), "10.3.0", "Orin, compute capability 8.7") == before


def test_a_document_of_another_kind_is_no_row(kept: EngineFiles) -> None:
    write_document(kept.folder / row_name("a.engine"), find_engine("ort").probe())
    assert kept.find("a.engine") is None


def test_a_build_of_four_hours_may_tell_its_progress() -> None:
    assert BUILDS.most_events * messages.PAUSE_S > 4 * 3600


def test_an_engine_that_is_being_built_is_no_cache(kept: EngineFiles, outputs: Path) -> None:
    """The caches of one build are copied while the next one goes on."""
    (outputs / "a.onnx").touch()
    copied = caches_of(kept).parent / "copied"
    plan = plan_of(build("a"))

    class Engine:
        name, package = "ort", "onnxruntime"

        def build(self, trial: BuildTrial, _folder: Path, into: Path, _announce: object) -> Built:
            (into / trial.engine_file).write_bytes(b"half of it")
            (into / "timing.cache").write_bytes(b"known")
            copied.mkdir()
            shutil.copytree(into, outputs / CACHES / "copied", dirs_exist_ok=True)
            FolderOutputs(outputs).take_caches(copied)
            return Built(3, None, "new", {}, unknown={"dla_share": "it is built for the GPU"})

    instruments = Instruments(
        root=SYSTEM_ROOT,
        mode=plan.mode,
        sources=find_sources(SYSTEM_ROOT, plan.cpus),
        meters=NO_METERS,
        keep=lambda _sample: None,
        gpu=None,
        files=outputs,
        outputs=outputs,
    )
    row = build_engine_file(plan.trials[0], plan, instruments, cast("BuildingEngine", Engine()))
    assert row.failure is None
    assert [path.name for path in copied.iterdir()] == ["timing.cache"]
    assert (outputs / "a.engine").read_bytes() == b"half of it"
