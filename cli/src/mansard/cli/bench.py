"""``mansard bench``: measure this machine, score the networks, write the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard.cli.boards import BoardOption, board_root

ModelsArgument = Annotated[
    list[Path] | None,
    typer.Argument(help="ONNX files to score; the zoo by default.", readable=False),
]
ProfileOption = Annotated[
    Literal["brief", "quick", "full"], typer.Option(help="How many points and repetitions.")
]


def bench(
    models: ModelsArgument = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="Power modes: 15W, MAXN, all, 'gpu=612MHz,cores=4', a TOML grid; 2c on a plain "
            "machine. By default the machine as it is."
        ),
    ] = None,
    pick: Annotated[
        int | None, typer.Option(min=1, help="Measure only so many modes, spread over all.")
    ] = None,
    profile: ProfileOption = "quick",
    runs: Annotated[Path, typer.Option(help="Folder that keeps the runs.", readable=False)] = Path(
        "runs"
    ),
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Batch sizes to score. Repeatable.")
    ] = None,
    dim: Annotated[
        list[str] | None, typer.Option(help="Value of a named dimension: name=value. Repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every write and the time; touch nothing.")
    ] = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="What to measure; by default the GPU where there is one."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Measure without a container. LOCAL=1 of make.")
    ] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Board to measure: user@board, unix:///…/docker.sock, or a name in hosts.toml. "
            "Repeatable, or several with commas between."
        ),
    ] = None,
    hosts_file: Annotated[
        Path | None, typer.Option(help="TOML file that names boards.", readable=False)
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image to measure in, by its name in the table.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="TOML file that adds images.", readable=False)
    ] = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Download nothing: the image is there, or all it is built from."
        ),
    ] = False,
    engine: Annotated[
        str | None, typer.Option(help="Address of the container engine, unix:///….")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Pull without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Measure this machine, score the networks, and write one self-contained report.

    What was measured before is not measured again; an interrupted run resumes. Power modes
    are set, locked, and put back as they were found.
    """
    from mansard.cli.benching import BenchRequest, run_bench
    from mansard.cli.container_place import WantedImage
    from mansard.cli.given_options import parse_dimensions

    run_bench(
        BenchRequest(
            models=tuple(models or ()),
            mode=mode,
            pick=pick,
            profile=profile,
            runs=runs,
            batches=tuple(batch or (1, 8)),
            dims=parse_dimensions(dim or []),
            is_dry_run=dry_run,
            root=board_root(board),
            as_json=as_json,
            processor=processor,
            is_local=local,
            hosts=tuple(host or ()),
            hosts_file=hosts_file,
            wanted_image=WantedImage(
                name=image, table=images, is_offline=offline, is_agreed=yes, engine=engine
            ),
        )
    )
