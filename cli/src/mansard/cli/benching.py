"""A bench from end to end: modes, networks, measurements, report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError


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


def run_bench(request: BenchRequest) -> None:
    """Do what was asked for; raises any MansardError.

    A mode that cannot be set is left out with a note; it fails the command only after the
    others are measured and the report is written.
    """
    from mansard.cli.boards import check_measurable
    from mansard.cli.dry_run import print_dry_run
    from mansard.cli.measuring import measure_modes, plan_modes
    from mansard.cli.reporting import report_runs
    from mansard.cli.workload import score_workload, write_scores
    from mansard.core.files import make_folder
    from mansard.device.choosing.choice import choose_modes
    from mansard.device.identity import identify

    check_measurable(request.root)
    if not request.is_dry_run:
        _put_back(request.root)
    # Everything that can be wrong with the request is found before minutes of measuring.
    machine = identify(request.root)
    modes = choose_modes(request.mode, request.root, machine, pick=request.pick)
    plans = plan_modes(machine, modes, request.profile, request.runs)
    if request.is_dry_run:
        print_dry_run(plans, request.root, as_json=request.as_json)
        return
    scores = score_workload(request.models, request.batches, request.dims)
    make_folder(request.runs)
    write_scores(request.runs, scores)
    measured = measure_modes(plans, machine, request.runs, request.root)
    if measured.run_ids or not measured.failed:
        report_runs(
            request.runs,
            request.runs / "report.html",
            as_json=request.as_json,
            run_ids=measured.run_ids,
        )
    if measured.failed:
        names = ", ".join(measured.failed)
        raise DeviceError(
            f"{len(measured.failed)} of {len(plans)} power modes could not be measured: {names}",
            fix="the notes above say why",
        )


def _put_back(root: Path) -> None:
    """Restore what a run that was cut off has left: it would be taken for the present state."""
    from mansard.cli.console import note
    from mansard.device.holding.pending import restore

    restored = restore(root)
    for line in restored.lines() if restored is not None else ():
        note(line)
