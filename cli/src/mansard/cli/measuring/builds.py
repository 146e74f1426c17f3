"""``mansard models build``: engine files of networks, built and kept without a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_json
from mansard.cli.measuring.networks import build_settings, place_of
from mansard.cli.measuring.option_groups import (
    BuildGroup,
    PlaceGroup,
    group_of,
    grouped_signature,
)
from mansard.cli.options import JsonOption, KeptRunsOption, ModeOption
from mansard.cli.tables import print_tables
from mansard.core.records import EngineBuild
from mansard.core.table import Table


def build(
    models: Annotated[
        list[str], typer.Argument(help="ONNX files, folders of them, or names of shipped networks.")
    ],
    mode: ModeOption = None,
    runs: KeptRunsOption = Path("runs"),
    compute_capability: Annotated[
        str | None,
        typer.Option(
            help="Build for this compute capability, such as 8.6, without such a card. "
            "TensorRT for RTX only."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print missing files; build nothing.")
    ] = False,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Build engine files of MODELS without measuring.

    'mansard measure' loads them with the same options, for TensorRT or trtexec. Existing files are
    reused; interrupted builds start again. The highest of several modes is set during the build,
    then the board is restored.
    """
    how, place = group_of(BuildGroup, options), group_of(PlaceGroup, options)
    request = api.MeasureRequest(
        models=tuple(models),
        settings=build_settings(
            how,
            compute_capability,
            accuracy=api.AccuracySettings(preprocess=how.preprocess, calibration=how.calibration),
        ),
        mode=mode,
        runs=runs,
        **place_of(place),
    )
    result = api.build(request, TerminalReporter(is_agreed=place.yes), is_dry_run=dry_run)
    if as_json:
        print_json("build", {"files": result.files})
    else:
        print_files(result.files)
    result.check()


# Typer asks inspect for it.
build.__signature__ = grouped_signature(build, (BuildGroup, PlaceGroup))  # type: ignore[attr-defined]


def print_files(files: tuple[results.BuiltFile, ...]) -> None:
    """Print a table of engine files, where there are any."""
    if files:
        print_tables([_files(files)])


def _files(files: tuple[results.BuiltFile, ...]) -> Table:
    rows = [
        (
            file.network,
            "unknown" if file.batch is None else str(file.batch),
            file.precision,
            file.state,
            _size(file.build),
            _time(file.build),
            str(file.path),
            (file.build.failure if file.build is not None else None) or "",
        )
        for file in files
    ]
    titles = dict.fromkeys(f"{file.engine} for {file.device}" for file in files)
    columns = ("network", "batch", "precision", "state", "size", "build time", "file", "remark")
    return Table(f"Engine files: {', '.join(titles)}", columns, rows)


def _size(build: EngineBuild | None) -> str:
    n_bytes = None if build is None else build.engine_bytes
    return "–" if n_bytes is None else f"{n_bytes / 1e6:.1f} MB"


def _time(build: EngineBuild | None) -> str:
    return f"{build.build_s:.1f} s" if build is not None and build.build_s is not None else "–"
