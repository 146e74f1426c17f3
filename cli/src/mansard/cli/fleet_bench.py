"""``HOST=`` and ``HOSTS=``: the same bench on boards elsewhere, all at once, into one folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.console import PlainProgress, Progress, note

if TYPE_CHECKING:
    from mansard.cli.benching import BenchRequest
    from mansard.cli.measuring import Measured
    from mansard.containers.fleet import Fleet, Message, Worker
    from mansard.containers.hosts import Host


class Line(msgspec.Struct, frozen=True):
    """A note of one board."""

    text: str


class Step(msgspec.Struct, frozen=True):
    """How far one board is."""

    title: str
    n_done: int
    n_total: int
    remaining_s: float | None
    now: str


class WorkerVoice:
    """A board's voice in its worker's thread: what it says is printed by the main one."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def note(self, line: str) -> None:
        """Hand a note on; raises KeyboardInterrupt once the fleet is to stop."""
        self._worker.send(Line(line))

    @contextmanager
    def progress(self, title: str) -> Iterator[Progress]:
        """Hand the progress on; raises KeyboardInterrupt once the fleet is to stop."""
        yield _WorkerProgress(self._worker, title)


class _WorkerProgress:
    def __init__(self, worker: Worker, title: str) -> None:
        self._worker = worker
        self._title = title

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        self._worker.send(Step(self._title, n_done, n_total, remaining_s, now))


class Printer:
    """Prints what the boards of a fleet say; bars of several would write over one another."""

    def __init__(self) -> None:
        self._progress: dict[str, PlainProgress] = {}

    def __call__(self, message: Message) -> None:
        """Print one message of a board, its name first."""
        payload = message.payload
        if isinstance(payload, Line):
            note(f"{message.board}: {payload.text}")
        elif isinstance(payload, Step):
            title = f"{message.board}: {payload.title}"
            progress = self._progress.setdefault(title, PlainProgress(title))
            progress.update(payload.n_done, payload.n_total, payload.remaining_s, payload.now)


def bench_fleet(request: BenchRequest, hosts: Sequence[Host]) -> Fleet[Measured]:
    """Bench every one of ``hosts``; a board that fails does not stop the others."""
    from mansard.containers.fleet import run_fleet

    return run_fleet(hosts, partial(_bench_one, request), Printer())


def _bench_one(request: BenchRequest, worker: Worker) -> Measured:
    """One board, in its worker's thread; raises DeviceError if one of its modes failed."""
    from mansard.cli.benching import check_all_measured, choose_board_modes, plan_board
    from mansard.cli.measuring import measure_modes
    from mansard.cli.remote_place import remote
    from mansard.containers.launch import stop_containers

    voice = WorkerVoice(worker)
    # Several boards cannot ask at once; what they download is message.
    wanted = msgspec.structs.replace(request.wanted_image, is_agreed=True)
    with remote(worker.host, wanted, voice) as place:
        worker.on_stop(place.stop)
        worker.claim(place.controller.identify())
        worker.on_stop(partial(stop_containers, place.address))
        modes = choose_board_modes(place.controller, request, voice)
        plans = plan_board(place, modes, request, voice)
        measured = measure_modes(plans, place, request.runs, voice)
    check_all_measured(measured, len(plans))
    return measured


def show_fleet(request: BenchRequest, hosts: Sequence[Host]) -> None:
    """Print what a bench would do on every host, one after the other; nothing is touched."""
    from mansard.cli.benching import choose_board_modes, plan_board
    from mansard.cli.console import print_json
    from mansard.cli.dry_run import describe_dry_run, print_dry_run
    from mansard.cli.remote_place import remote
    from mansard.cli.voice import OwnVoice

    voice, described = OwnVoice(), {}
    for host in hosts:
        voice.note(f"board {host.name}:")
        with remote(host, request.wanted_image, voice) as place:
            modes = choose_board_modes(place.controller, request, voice)
            plans = plan_board(place, modes, request, voice)
            if request.as_json:
                described[host.name] = describe_dry_run(plans, place)
            else:
                print_dry_run(plans, place)
    if request.as_json:
        print_json({"boards": described})


def chosen_hosts(request: BenchRequest) -> tuple[Host, ...]:
    """The boards that ``request`` names; raises UsageError, also for options of this machine."""
    from mansard.containers.hosts import read_hosts
    from mansard.core.errors import UsageError
    from mansard.device.system import SYSTEM_ROOT

    if request.is_local or request.root != SYSTEM_ROOT or request.wanted_image.engine:
        raise UsageError(
            "--local, --board and --engine are about this machine, --host about others",
            fix="leave one of them out; hosts.toml names a simulated board's root",
        )
    return read_hosts(request.hosts, request.hosts_file)
