"""``mansard batch``: what batch sizes cost, swept as Pagoda's experiment does."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.cli.boards import BoardOption
from mansard.core.records import Phase

_Texts = list[str] | None


def batch(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="ONNX files, names of the zoo, or of networks that were measured."),
    ] = None,
    runs: Annotated[
        _Texts, typer.Option(help="Folder or URL of runs; repeatable.")
    ] = None,
    batch_sizes: Annotated[
        _Texts, typer.Option("--batch", help="Batch sizes: 1,8,32. 1 to 64 by default.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="Modes, as for bench, or a table (.csv); 'measured' for all that were. "
                     "The highest one by default."),
    ] = None,
    precision: Annotated[
        _Texts, typer.Option(help="Precisions: fp16,int8. The file's by default.")
    ] = None,
    dim: Annotated[_Texts, typer.Option(help="Named dimensions: seq=128. Repeatable.")] = None,
    phase: Annotated[Phase, typer.Option(help="What the networks do.")] = "inference",
    device: Annotated[
        str | None, typer.Option(help="Only devices whose name holds this.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Scale predictions to the measured networks.")
    ] = False,
    board: BoardOption = None,
    mix: Annotated[
        bool, typer.Option("--mix", help="Take runs of different versions together.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:  # fmt: skip
    """Predict time, throughput and energy of MODELS over batch sizes; measures nothing."""
    from mansard.analytics.decide.batches import batch_table, curves_of, highest_only
    from mansard.cli.batch_tables import print_batches
    from mansard.cli.given_options import parse_dimensions
    from mansard.cli.predicting import Asked, Network, predict_asked
    from mansard.cli.recommending import AUTO_BATCHES, parse_batches, parse_precisions

    batches = parse_batches(batch_sizes) or AUTO_BATCHES
    precisions = parse_precisions(precision)
    asked = Asked(
        runs=tuple(runs or ("runs",)),
        networks=tuple(
            Network(name=name, batches=batches, precisions=precisions) for name in models or ()
        ),
        batches=batches,
        precisions=precisions,
        dims=parse_dimensions(dim or []),
        phase=phase,
        modes=None if mode in (None, "measured") else mode,
        device=device,
        board=board,
        may_mix=mix,
        calibrate=calibrate,
    )
    _, predicted = predict_asked(asked)
    rows = batch_table(predicted.predictions, predicted.scores)
    if mode is None:
        rows = highest_only(rows, predicted.modes)
    print_batches(curves_of(rows), as_json=as_json)
