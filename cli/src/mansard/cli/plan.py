"""``mansard plan``: which power modes to measure next, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard.cli.boards import BoardOption
from mansard.cli.question_options import JsonOption
from mansard.cli.run_places import MixOption


def plan(
    runs: Annotated[
        Path | None,
        typer.Argument(help="Folder of runs and imported tables; none for a first plan.",
                       readable=False),
    ] = None,
    modes: Annotated[
        str,
        typer.Option(help="Modes to choose from: a table (CSV), a grid (TOML), or what --mode of "
                     "bench takes."),
    ] = "all",
    n_next: Annotated[int, typer.Option("--next", help="How many modes.")] = 10,
    minimise: Annotated[
        Literal["energy", "latency", "edp", "power"], typer.Option(help="What is to be small.")
    ] = "energy",
    max_latency: Annotated[
        str | None, typer.Option(help="Longest time of a batch that will do: 20ms.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="The network that counts; all of RUNS by default.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device of RUNS, or a part of its name.")
    ] = None,
    board: BoardOption = None,
    mix: MixOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Choose the power modes that are worth measuring next.

    Before anything is measured: those that together tell most about all the others. Then:
    those that may be better than the best so far, and those that make predictions surer.
    Nothing is set and nothing measured.
    """
    from mansard.cli.limit_options import parse_optional
    from mansard.cli.plan_inputs import PlanRequest
    from mansard.cli.plan_output import run_plan

    run_plan(
        PlanRequest(
            runs=runs,
            modes=modes,
            n_next=n_next,
            minimise=minimise,
            max_latency_s=parse_optional("--max-latency", max_latency, "time"),
            network=network,
            device=device,
            board=board,
            mix=mix,
        ),
        as_json=as_json,
    )
