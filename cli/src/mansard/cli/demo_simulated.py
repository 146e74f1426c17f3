"""``mansard demo simulated``: a bench on a simulated Jetson, so that anyone can see one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_NETWORKS = ("mobilenet_v2", "resnet18", "resnet50")


def simulated(
    board: Annotated[
        Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"],
        typer.Option(help="Which board to simulate."),
    ] = "agx-orin",
    mode: Annotated[str, typer.Option(help="Power modes, as for bench.")] = "all",
    folder: Annotated[
        Path, typer.Option(help="Where the board, the runs and the report go.", readable=False)
    ] = Path("demo"),
) -> None:
    """Make a simulated board, sweep its power modes, and write the report.

    The kernels run on this machine's CPU; power modes, clocks and meters are the simulator's,
    and everything says so.
    """
    from mansard.cli.benching import BenchRequest, run_bench
    from mansard.cli.console import note
    from mansard.core.files import make_folder
    from mansard.estimator import zoo
    from mansard.simulator import create_board, running

    networks = make_folder(folder / "networks")
    models = tuple(zoo.write(name, networks) for name in _NETWORKS)
    root = folder / board
    if not root.exists():
        create_board(board, folder)
    note(f"A simulated {board} in {root}; look around with: mansard doctor --board {root}")
    with running(root):
        run_bench(
            BenchRequest(
                models=models,
                mode=mode,
                pick=None,
                profile="brief",
                runs=folder / "runs",
                batches=(1,),
                dims={},
                is_dry_run=False,
                root=root,
                is_local=True,
                as_json=False,
            )
        )
