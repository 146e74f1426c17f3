"""A made-up room measures a sleep: here, behind a pipe, in a container, over SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.hosts import Host
from mansard.containers.measurer import ContainerMeasurer
from mansard.containers.tunnel import open_tunnel
from mansard.core.errors import ContainerError, SchemaError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.measuring.events import Event, Measurer
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.kind import Job, decode_job, encode_job
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import missing_trials, run_plan
from tests.containers.launching import launch
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.throwaway import REPOSITORY, Daemon
from tests.measuring.made_up_room import Nap, NapPlan, NapRow
from tests.measuring.test_pipe import through_a_pipe

NAPS = (Nap(nap_s=0.001), Nap(nap_s=0.002))


def nap_plan(*naps: Nap) -> NapPlan:
    machine = identify()
    return NapPlan(
        profile="brief",
        machine=machine,
        processor="cpu",
        gpu=None,
        seed=1,
        mode=core_count_mode(1),
        cpus=machine.cpus[:1],
        versions={"mansard": "0.1.0"},
        trials=naps or NAPS,
        protocol=msgspec.structs.replace(PROTOCOLS["brief"], time_cap_s=0.1),
        unknown={"gpu": "a sleep needs none"},
    )


def check(measurer: Measurer, runs: Path) -> None:
    plan = nap_plan()
    outcome = run_plan(plan, runs, measurer=measurer)
    assert (outcome.n_measured, missing_trials(plan, runs)) == (2, ())
    rows = read_rows(outcome.folder / "naps.jsonl", NapRow).rows
    assert [row.trial_id for row in rows] == [nap.trial_id for nap in plan.trials]
    assert all(min(row.seconds_s) >= row.nap_s for row in rows)
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert (manifest.run_id, manifest.n_trials) == (plan.run_id, 2)
    assert manifest.unknown["gpu"] == "a sleep needs no GPU"


@pytest.mark.parametrize("measurer", [LocalMeasurer(), through_a_pipe])
def test_in_this_process_and_in_another(measurer: Measurer, tmp_path: Path) -> None:
    check(measurer, tmp_path)


def test_what_a_trial_announces_is_shown_before_it_is_over(tmp_path: Path) -> None:
    shown: list[SweepState] = []
    plan = nap_plan(Nap(nap_s=0.001, announced_s=60.0), Nap(nap_s=0.002))
    run_plan(plan, tmp_path, measurer=through_a_pipe, on_progress=shown.append)
    assert [(each.n_done, each.now) for each in shown] == [
        (0, "sleep 0.001 s"),
        (0, "a long rest"),
        (1, "sleep 0.002 s"),
        (2, "done"),
    ]


def impatient_once_started(
    measurer: ContainerMeasurer | GuardedMeasurer, silence_s: float
) -> Measurer:
    """``measurer`` with this limit of silence from its first word on: a start may take longer."""

    def measure(job: Job) -> Iterator[Event]:
        for event in measurer(job):
            vars(measurer)["silence_s"] = silence_s
            yield event

    return measure


def in_container(engine: ContainerEngine, image: str) -> ContainerMeasurer:
    environment = {"PYTHONPATH": str(REPOSITORY)}
    return ContainerMeasurer(engine, launch(image, environment=environment))


@pytest.mark.docker
def test_a_silence_that_is_announced_is_no_hang_and_no_other_is_excused(
    engine: ContainerEngine, bare_image: str, tmp_path: Path
) -> None:
    """The first trial rests 4 s of 60 announced, the second for minutes without a word."""
    plan = nap_plan(Nap(nap_s=0.001, rest_s=4.0, announced_s=60.0), Nap(nap_s=0.001, rest_s=600.0))
    measurer = impatient_once_started(in_container(engine, bare_image), 3.0)
    with pytest.raises(ContainerError, match="has said nothing for 3 s"):
        run_plan(plan, tmp_path, measurer=measurer)
    assert len(missing_trials(plan, tmp_path)) == 1


@pytest.mark.docker
def test_in_a_container(engine: ContainerEngine, bare_image: str, tmp_path: Path) -> None:
    check(in_container(engine, bare_image), tmp_path)


@pytest.mark.docker
@pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd()))
def test_over_ssh(daemon: Daemon, bare_image: str, tmp_path: Path) -> None:
    there = Host(name="orin", ssh="orin", socket=daemon.address.removeprefix("unix://"))
    with (
        ssh_board(tmp_path / "board") as board,
        open_tunnel(there, board.options) as tunnel,
        connect(tunnel.address) as connected,
    ):
        check(in_container(connected, bare_image), tmp_path / "runs")


def test_a_kind_that_is_not_there_is_refused() -> None:
    plan = nap_plan()
    line = encode_job(Job(plan=plan, missing=(), read_back=plan.mode))
    for path in (b"tests.measuring.made_up_room:GONE", b"no.such.room:NAPS", b"os:path"):
        with pytest.raises(SchemaError, match="kind of measurement"):
            decode_job(line.replace(plan.kind.encode(), path))
