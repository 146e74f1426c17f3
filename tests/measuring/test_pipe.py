"""A measuring process behind a pipe: what it says, and that it never outlives its input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import MeasurementError
from mansard.core.records import Manifest, Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS
from mansard.measuring.events import (
    Aborted,
    Done,
    Event,
    Progress,
    Row,
    Started,
    event_decoder,
    started,
)
from mansard.measuring.kind import Job, encode_job, find_kind
from mansard.measuring.manifest import ContainerImage
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from mansard.microbench.plan import KernelPlan, Probe, make_plan
from tests.containers.throwaway import REPOSITORY
from tests.measuring.test_runner import short_plan

COMMAND = [sys.executable, "-m", "mansard.measuring"]
PROBE = [sys.executable, "-m", "mansard.microbench", "--probe", "cpu"]


def job_of(plan: KernelPlan, n_missing: int | None = None) -> Job:
    missing = tuple(spec.trial_id for spec in plan.trials)
    return Job(plan=plan, missing=missing[:n_missing], read_back=plan.mode)


def start(*options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    )


def through_a_pipe(job: Job) -> Iterator[Event]:
    with start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_job(job))
        process.stdin.flush()
        decoder = event_decoder(find_kind(job.plan.kind).row_type)
        yield from map(decoder.decode, process.stdout)
        process.stdin.close()


def breaks_off(job: Job) -> Iterator[Event]:
    for event in LocalMeasurer()(job):
        yield event
        if isinstance(event, Row):
            return


def test_a_job_through_a_pipe_is_kept_like_one_measured_here(tmp_path: Path) -> None:
    plan = short_plan(3)
    outcome = run_plan(plan, tmp_path, measurer=through_a_pipe)
    assert (outcome.n_measured, outcome.n_resumed) == (3, 0)
    trials = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert [trial.trial_id for trial in trials] == [spec.trial_id for spec in plan.trials]
    assert all(trial.seconds_s or trial.rejected_s for trial in trials)
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert manifest.finished_utc is not None
    assert manifest.unknown["gpu"] == "the kernels ran on the CPU"


def test_the_process_ends_when_its_input_ends() -> None:
    plan = make_plan(identify(), short_plan().mode, "full")  # minutes of trials
    with start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_job(job_of(plan)))
        process.stdin.flush()
        assert isinstance(event_decoder(Trial).decode(process.stdout.readline()), Started)
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(timeout=300) == 130
    assert b'"Done"' not in rest


def test_it_ends_with_its_input_even_where_a_shell_has_interrupts_ignored() -> None:
    plan = make_plan(identify(), short_plan().mode, "full")  # minutes of trials
    ignored = ["env", "--ignore-signal=INT", *COMMAND]
    with subprocess.Popen(ignored, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_job(job_of(plan)))
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.close()
        process.stdout.read()
        assert process.wait(timeout=300) == 130


def test_the_process_ends_when_its_input_falls_silent() -> None:
    plan = make_plan(identify(), short_plan().mode, "full")  # minutes of trials
    with start("--heartbeat", "0.5") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_job(job_of(plan)))
        process.stdin.flush()
        process.stdout.read()  # to its end, while the input stays open
        assert process.wait(timeout=300) == 130


@pytest.mark.parametrize("text", [b"", b"\n", b"{}\n", b"[" * 100_000, b"\xff\xfe\n"])
def test_a_job_that_is_none_is_one_event_that_says_so(text: bytes) -> None:
    with start() as process:
        out, errors = process.communicate(text, timeout=300)
    assert process.returncode == 1
    event = msgspec.json.decode(out, type=Aborted)
    assert (event.error.kind, event.error.where) == ("SchemaError", "standard input")
    assert b"Traceback" not in errors


def test_cpus_that_it_may_not_use_are_said_through_the_pipe(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(short_plan(), cpus=(4095,))
    (event,) = through_a_pipe(job_of(plan))
    assert isinstance(event, Aborted)
    assert event.error.kind == "DeviceError"
    assert event.error.what == "the plan uses CPUs [4095], which this process may not run on"


def test_a_probe_is_one_line() -> None:
    done = subprocess.run(PROBE, capture_output=True, check=True)
    found = msgspec.json.decode(done.stdout, type=Probe)
    assert found.gpu is None
    assert found.versions == short_plan().versions


def test_a_measurement_that_breaks_off_says_how_much_is_missing(tmp_path: Path) -> None:
    plan = short_plan(3)

    said = "ended with 2 trials missing; finished work is kept: the same command resumes"
    with pytest.raises(MeasurementError, match=said):
        run_plan(plan, tmp_path, measurer=breaks_off)
    assert run_plan(plan, tmp_path).n_resumed == 1


def test_trials_that_nobody_asked_for_are_refused(tmp_path: Path) -> None:
    plan = short_plan(2)

    def repeats(job: Job) -> Iterator[Event]:
        for event in LocalMeasurer()(job):
            yield event
            if isinstance(event, Row):
                yield event

    with pytest.raises(MeasurementError, match="was not asked for"):
        run_plan(plan, tmp_path, measurer=repeats)
    (row,) = read_rows(tmp_path / plan.run_id / "trials.jsonl", Trial).rows
    assert row.trial_id == plan.trials[0].trial_id


def test_a_measurement_that_begins_in_the_middle_is_refused(tmp_path: Path) -> None:
    def starts_late(job: Job) -> Iterator[Event]:
        yield Progress(n_left=1, now="fma")
        yield Done()

    with pytest.raises(MeasurementError, match="ended with 2 trials missing"):
        run_plan(short_plan(2), tmp_path, measurer=starts_late)
    assert list(tmp_path.iterdir()) == []  # nothing was said, so nothing is kept


def test_a_run_that_went_on_in_another_image_says_so(tmp_path: Path) -> None:
    plan = short_plan(2)
    first, second = (
        ContainerImage("mansard/cpu:1", "sha256:aa"),
        ContainerImage("mansard/cpu:2", "sha256:bb"),
    )

    with pytest.raises(MeasurementError):
        run_plan(plan, tmp_path, measurer=breaks_off, image=first)
    path = tmp_path / plan.run_id / "manifest.json"
    assert read_document(path, Manifest).image_digest == "sha256:aa"
    run_plan(plan, tmp_path, image=second)
    manifest = read_document(path, Manifest)
    assert manifest.image_digest is None
    reason = "begun in: sha256:aa; resumed in: sha256:bb"
    assert manifest.unknown["image_digest"] == reason


def test_a_start_survives_the_pipe() -> None:
    said = started({"mansard": "1"}, NO_METERS, None, "none is here")
    assert event_decoder(Trial).decode(msgspec.json.encode(said)) == said


def test_variables_of_the_plan_are_set_in_the_process_and_secrets_refused(tmp_path: Path) -> None:
    plain = msgspec.structs.replace(short_plan(1), environment={"MANSARD_TRY": "1"})
    assert run_plan(plain, tmp_path, measurer=through_a_pipe).n_measured == 1
    secret = msgspec.structs.replace(plain, environment={"HF_TOKEN": "*** 0123456789abcdef"})
    with pytest.raises(MeasurementError, match="the value of HF_TOKEN is a secret, or long"):
        run_plan(secret, tmp_path, measurer=through_a_pipe)
    assert not (tmp_path / secret.run_id).exists()
