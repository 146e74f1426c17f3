"""The real package in a real container: a job goes in, trials come out, the caller owns them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from mansard.containers.engine import Access, ContainerEngine
from mansard.containers.measurer import ContainerMeasurer, probe_in_container
from mansard.core.errors import ContainerError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Manifest, PowerMode, PowerSample, Trial
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.jsonl import read_rows
from mansard.core.version import VERSION
from mansard.device.identity import identify
from mansard.measuring.events import Done
from mansard.measuring.kind import Job
from mansard.measuring.runner import run_plan
from mansard.microbench.plan import KernelPlan, make_plan
from tests.cli.bench_process import Start
from tests.containers.launching import launch
from tests.containers.throwaway import REPOSITORY, Daemon
from tests.waiting import awaited

pytestmark = pytest.mark.docker


def short_plan(root: Path, mode: PowerMode, n_trials: int) -> KernelPlan:
    plan = make_plan(identify(root), mode, "brief")
    few = msgspec.structs.replace(
        plan.protocol, time_cap_s=0.1, energy_window_s=0.1, settle_cap_s=0.1, idle_s=0.2
    )
    trials = [spec for spec in plan.trials if spec.kernel == "fma"][:n_trials]
    return msgspec.structs.replace(plan, trials=tuple(trials), protocol=few)


def test_a_plan_is_measured_in_a_container_with_the_boards_meters(
    engine: ContainerEngine, bare_image: str, board: Path, tmp_path: Path
) -> None:
    plan = short_plan(board, core_count_mode(1), 2)
    measurer = ContainerMeasurer(engine, launch(bare_image, board=board))
    outcome = run_plan(plan, tmp_path / "runs", measurer=measurer)
    trials = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert [trial.trial_id for trial in trials] == [spec.trial_id for spec in plan.trials]
    for trial in trials:
        assert trial.seconds_s or trial.rejected_s
        assert trial.energy is not None
        rails = {rail.rail: rail.energy_j for window in trial.energy for rail in window.rails}
        assert rails.keys() == {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"}
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert manifest.finished_utc is not None
    assert manifest.meters
    assert read_rows(outcome.folder / "samples.jsonl", PowerSample).rows
    mine = {path.stat().st_uid for path in (tmp_path / "runs").rglob("*")}
    assert mine == {os.geteuid()}
    assert engine.client.api.containers(all=True) == []


def test_a_job_without_trials_is_through_in_a_moment(
    engine: ContainerEngine, bare_image: str
) -> None:
    plan = short_plan(Path("/"), core_count_mode(1), 0)
    job = Job(plan=plan, missing=(), read_back=plan.mode)
    events = list(ContainerMeasurer(engine, launch(bare_image))(job))
    assert isinstance(events[-1], Done)


# A keeper of its own, to be killed: says when the first trial is there.
KEEPER = """
import sys
from pathlib import Path
from mansard.containers.engine import connect
from mansard.containers.measurer import ContainerMeasurer
from mansard.core.storage.documents import read_document
from mansard.microbench.plan import KernelPlan
from mansard.measuring.runner import run_plan
from tests.containers.launching import launch
address, image, plan, runs = sys.argv[1:]
with connect(address) as engine:
    run_plan(
        read_document(Path(plan), KernelPlan), Path(runs),
        measurer=ContainerMeasurer(engine, launch(image)),
        on_progress=lambda state: print(state.n_done, flush=True),
    )
"""


def test_a_run_that_is_killed_leaves_no_container_and_resumes(
    daemon: Daemon, engine: ContainerEngine, bare_image: str, tmp_path: Path, start: Start
) -> None:
    plan = short_plan(Path("/"), core_count_mode(1), 4)
    write_document(tmp_path / "plan.json", plan)
    arguments = [daemon.address, bare_image, str(tmp_path / "plan.json"), str(tmp_path / "runs")]
    keeper = start([sys.executable, "-c", KEEPER, *arguments], cwd=REPOSITORY)
    assert keeper.stdout is not None
    while keeper.stdout.readline().strip() not in {"1", ""}:
        pass
    assert len(engine.client.api.containers(all=True)) == 1
    keeper.kill()
    keeper.communicate()
    assert awaited(lambda: not engine.client.api.containers(all=True))
    outcome = run_plan(
        plan, tmp_path / "runs", measurer=ContainerMeasurer(engine, launch(bare_image))
    )
    assert outcome.n_resumed >= 1
    assert outcome.n_measured + outcome.n_resumed == 4


def test_the_probe_says_what_is_inside(engine: ContainerEngine, bare_image: str) -> None:
    probe = probe_in_container(engine, launch(bare_image), "cpu")
    assert probe.versions["mansard"] == VERSION
    assert probe.gpu is None


def test_no_gpu_inside_is_told_with_what_helps(engine: ContainerEngine, bare_image: str) -> None:
    # The runtime is called nvidia, but brings nothing: as with a broken installation.
    access = Access(kind="runtime", gpu="jetson", why="the test")
    with pytest.raises(ContainerError, match="no GPU in the container") as caught:
        probe_in_container(engine, launch(bare_image, access=access), "gpu")
    assert "nvidia-ctk" in str(caught.value)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("print('Segmentation fault (core dumped)')", "wrote a line that is not an event"),
        ('print(\'{"type": "Later"}\')', "wrote a line that is not an event"),
        ("print('[' * 100_000)", "wrote a line that is not an event"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\n')", "wrote a line"),
        ("pass", "ended well, but before"),
        ("raise SystemExit('no numba')", "exit code 1: no numba"),
    ],
)
def test_what_is_no_measurement_is_one_clear_error(
    engine: ContainerEngine, bare_image: str, program: str, words: str
) -> None:
    # "-c" takes the place of the measuring program: what follows it are its arguments.
    plan = short_plan(Path("/"), core_count_mode(1), 1)
    measurer = ContainerMeasurer(engine, launch(bare_image, "-c", program))
    job = Job(plan=plan, missing=(plan.trials[0].trial_id,), read_back=plan.mode)
    with pytest.raises(ContainerError, match=words) as caught:
        list(measurer(job))
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            'print(\'{"versions": {"mansard": "0.0.9"}, "gpu": null, "unknown": {"gpu": "x"}}\')',
            "0.0.9",
        ),
        ("print('hello')", "answer cannot be read"),
        ("pass", "answer cannot be read"),
    ],
)
def test_an_image_of_another_version_is_refused(
    engine: ContainerEngine, bare_image: str, program: str, words: str
) -> None:
    with pytest.raises(ContainerError, match=words) as caught:
        probe_in_container(engine, launch(bare_image, "-c", program), "cpu")
    assert "mansard data image build" in str(caught.value)


def test_events_without_end_are_not_written(
    engine: ContainerEngine, bare_image: str, board: Path, tmp_path: Path
) -> None:
    """Each is a right event, but there are more than a job has."""
    program = """while True: print('{"type":"Progress","n_left":1,"now":"x"}')"""
    plan = short_plan(board, core_count_mode(1), 1)
    flooding = launch(bare_image, "-c", program)
    with pytest.raises(ContainerError, match="reports more events than its job can have"):
        run_plan(plan, tmp_path / "runs", measurer=ContainerMeasurer(engine, flooding))
