"""``mansard batch``: what batch sizes cost, swept as Pagoda's experiment does."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.cli.boards import BoardOption
from mansard.cli.question_options import (
    CalibrateOption,
    DeviceOption,
    DimOption,
    JsonOption,
    ModelsArgument,
    PhaseOption,
)
from mansard.cli.run_places import MixOption, RunsOption, run_places

_Texts = list[str] | None


def batch(
    models: ModelsArgument = None,
    runs: RunsOption = None,
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
    dim: DimOption = None,
    phase: PhaseOption = "inference",
    device: DeviceOption = None,
    calibrate: CalibrateOption = False,
    board: BoardOption = None,
    mix: MixOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Predict time, throughput and energy of MODELS over batch sizes; measures nothing."""
    from mansard.analytics.decide.batches import batch_table, curves_of, highest_only
    from mansard.cli.batch_tables import print_batches
    from mansard.cli.given_options import parse_dimensions
    from mansard.cli.predicting import Asked, named_networks, predict_asked
    from mansard.cli.recommending import AUTO_BATCHES, parse_batches, parse_precisions

    batches = parse_batches(batch_sizes) or AUTO_BATCHES
    precisions = parse_precisions(precision)
    asked = Asked(
        runs=run_places(runs),
        networks=named_networks(models, batches, precisions),
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
    predicted = predict_asked(asked)
    rows = batch_table(predicted.predictions, predicted.scores)
    if mode is None:
        rows = highest_only(rows, predicted.modes)
    print_batches(curves_of(rows), as_json=as_json)
