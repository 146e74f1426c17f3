"""``mansard contention``: what processors lose of their memory's traffic beside one another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from mansard import api
from mansard.analytics import pages
from mansard.cli.console import TerminalReporter, note, print_json, print_lines
from mansard.cli.measuring.bench import print_dry_runs
from mansard.cli.options import (
    BoardOption,
    ContainerEngineOption,
    DryRunOption,
    HostOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    JsonOption,
    KeptRunsOption,
    LocalOption,
    ModeOption,
    OfflineOption,
    PickOption,
    YesOption,
)
from mansard.cli.tables import print_tables
from mansard.cli.terminal import plain


def contention(
    mode: ModeOption = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"],
        typer.Option(help="How many demands of each processor: 3, 5 or 10."),
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    dry_run: DryRunOption = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(
            help="gpu: the GPU and the CPUs; cpu: two halves of the CPUs. By default the GPU where "
            "there is one."
        ),
    ] = None,
    local: LocalOption = False,
    host: HostOption = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure what the GPU and the CPUs, or two halves of the CPUs, take from each other's memory.

    Each runs with several demands on memory, alone and beside the other with several. What was
    measured before is not measured again; an interrupted run resumes. No roof changes.
    """
    request = api.SweepRequest(
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        board=board,
        processor=processor,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=api.WantedImage(
            name=image, table=images, is_offline=offline, engine=container_engine
        ),
    )
    reporter = TerminalReporter(is_agreed=yes)
    if dry_run:
        print_dry_runs(api.dry_run_contention(request, reporter), as_json=as_json)
        return
    done = api.measure_contention(request, reporter)
    if as_json:
        print_json("contention", {"victims": done.contention})
    else:
        tables = map(pages.contention_table, done.contention)
        print_tables(replace(table, columns=[*map(plain, table.columns)]) for table in tables)
        for victim in done.contention:
            print_lines([pages.contention_words(victim)])
            if victim.remark:
                note(f"{victim.victim}, {victim.mode}: {victim.remark}")
    done.check()
