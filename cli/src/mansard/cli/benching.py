"""A bench from end to end: modes, networks, measurements, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.container_place import WantedImage
from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode, Processor

if TYPE_CHECKING:
    from mansard.cli.measuring import Measured, ModePlan
    from mansard.cli.places import Place
    from mansard.cli.voice import Voice
    from mansard.device.controller.controller import BoardController


class BenchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bench is asked for."""

    models: tuple[Path, ...]
    mode: str | None
    pick: int | None
    profile: str
    runs: Path
    batches: tuple[int, ...]
    dims: dict[str, int]
    is_dry_run: bool
    root: Path
    as_json: bool
    processor: Processor | None = None  # None: the GPU where there is one
    is_local: bool = False  # in this process, without a container
    wanted_image: WantedImage = WantedImage()
    hosts: tuple[str, ...] = ()
    hosts_file: Path | None = None


def run_bench(request: BenchRequest) -> None:
    """Do what was asked for; raises any MansardError.

    A mode that cannot be set is left out with a note; it fails the command only after the
    others are measured and the report is written.
    """
    if request.hosts:
        _bench_hosts(request)
    else:
        _bench_here(request)


def _bench_here(request: BenchRequest) -> None:
    from mansard.cli.console import print_json
    from mansard.cli.dry_run import describe_dry_run, print_dry_run
    from mansard.cli.measuring import measure_modes
    from mansard.cli.opening import open_place
    from mansard.cli.voice import OwnVoice
    from mansard.device.controller.controller import LocalController

    voice = OwnVoice()
    controller = LocalController(request.root)
    # A mode that does not exist is said before an engine is asked, or an image built.
    modes = choose_board_modes(controller, request, voice)
    with open_place(controller, request, voice) as place:
        plans = plan_board(place, modes, request, voice)
        if request.is_dry_run:
            if request.as_json:
                print_json(describe_dry_run(plans, place))
            else:
                print_dry_run(plans, place)
            return
        _score(request)
        measured = measure_modes(plans, place, request.runs, voice)
    if measured.run_ids or not measured.failed:
        _report(request, measured.run_ids)
    check_all_measured(measured, len(plans))


def _bench_hosts(request: BenchRequest) -> None:
    from mansard.cli.fleet_bench import bench_fleet, chosen_hosts, show_fleet

    hosts = chosen_hosts(request)
    if request.is_dry_run:
        show_fleet(request, hosts)
        return
    _score(request)
    fleet = bench_fleet(request, hosts)
    if fleet.results:
        run_ids = [measured.run_ids for measured in fleet.results.values()]
        _report(request, frozenset().union(*run_ids))
    fleet.check()


def _score(request: BenchRequest) -> None:
    """Score the networks: what is wrong with them is found before minutes of measuring."""
    from mansard.cli.workload import score_workload, write_scores
    from mansard.core.files import make_folder

    scores = score_workload(request.models, request.batches, request.dims)
    make_folder(request.runs)
    write_scores(request.runs, scores)


def _report(request: BenchRequest, run_ids: frozenset[str]) -> None:
    from mansard.cli.reporting import report_runs

    path = request.runs / "report.html"
    report_runs([str(request.runs)], path, as_json=request.as_json, run_ids=run_ids)


def choose_board_modes(
    controller: BoardController, request: BenchRequest, voice: Voice
) -> tuple[PowerMode, ...]:
    """The modes to measure; a run that was cut off on the board is put back first."""
    if not request.is_dry_run:
        # What it left behind would be taken for the present state.
        for line in controller.put_back():
            voice.note(line)
    return controller.choose_modes(request.mode, request.pick)


def plan_board(
    place: Place, modes: tuple[PowerMode, ...], request: BenchRequest, voice: Voice
) -> list[ModePlan]:
    """What is to be measured on one board."""
    from mansard.cli.measuring import plan_modes
    from mansard.cli.places import find_processor

    machine = place.controller.identify()
    # Core counts are modes of the CPU alone.
    of_cpu = all(mode.kind == "cores" for mode in modes)
    processor = request.processor or ("cpu" if of_cpu else None)
    found = find_processor(place, machine, processor, voice)
    return plan_modes(machine, modes, request.profile, request.runs, found)


def check_all_measured(measured: Measured, n_modes: int) -> None:
    """Raises DeviceError that names the modes which could not be measured."""
    if measured.failed:
        names = ", ".join(measured.failed)
        raise DeviceError(
            f"{len(measured.failed)} of {n_modes} power modes could not be measured: {names}",
            fix="the notes above say why",
        )
