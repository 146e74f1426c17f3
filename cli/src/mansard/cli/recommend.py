"""``mansard recommend``: which mode, batch and precision, what it costs, and how to set it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard.analytics.decide.records import PROBABILITY
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


def recommend(
    models: ModelsArgument = None,
    runs: RunsOption = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Most time for a batch: 20ms.")
    ] = None,
    max_power: Annotated[str | None, typer.Option(help="Most power while it runs: 30W.")] = None,
    max_energy: Annotated[
        str | None, typer.Option(help="Most energy for an item: 0.5J, 500mJ.")
    ] = None,
    min_fps: Annotated[str | None, typer.Option(help="Fewest items per second: 30.")] = None,
    minimise: Annotated[
        Literal["energy", "latency", "edp", "power"],
        typer.Option(help="What is to be as small as it can be; edp is energy times latency."),
    ] = "energy",
    batch: Annotated[
        _Texts, typer.Option(help="Batch sizes that are open: 1,8, or auto. 1 by default.")
    ] = None,
    precision: Annotated[
        _Texts, typer.Option(help="Precisions that are open: fp16,int8. The file's by default.")
    ] = None,
    dim: DimOption = None,
    phase: PhaseOption = "inference",
    probability: Annotated[
        float, typer.Option(help="How likely each limit has to hold, between 0 and 1.")
    ] = PROBABILITY,
    modes: Annotated[
        str | None,
        typer.Option(help="Modes to choose from: of the runs, as for bench, or a table (.csv). "
                     "Those that were measured by default."),
    ] = None,
    device: DeviceOption = None,
    default: Annotated[
        str | None, typer.Option(help="The mode that the board starts in, to compare with.")
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(help="TOML file of networks with rates: one mode, or modes in turn, for "
                     "all of them.", readable=False),
    ] = None,
    calibrate: CalibrateOption = False,
    board: BoardOption = None,
    mix: MixOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Recommend a power mode for MODELS from what was measured; measures and sets nothing.

    Says what the mode saves, which others were near and why they lost, how likely the limits
    hold, and the commands that set the mode and undo it. Exit code 0 also where no mode keeps
    the limits: then the nearest are shown.
    """
    from mansard.analytics.decide.records import Wanted
    from mansard.cli.given_options import parse_dimensions
    from mansard.cli.limit_options import parse_optional, parse_rate
    from mansard.cli.predicting import Asked, named_networks
    from mansard.cli.recommending import (
        parse_batches,
        parse_precisions,
        recommend_mix,
        recommend_models,
    )
    from mansard.core.errors import UsageError

    batches, precisions = parse_batches(batch), parse_precisions(precision)
    if workload is not None and models:
        raise UsageError("networks and --workload exclude each other", fix="name them in the file")
    if workload is not None and default is not None:
        raise UsageError("--workload compares with no --default", fix="leave one of them out")
    wanted = Wanted(
        minimise=minimise,
        max_latency_s=parse_optional("--max-latency", max_latency, "time"),
        max_power_w=parse_optional("--max-power", max_power, "power"),
        max_energy_j=parse_optional("--max-energy", max_energy, "energy"),
        min_fps=parse_rate("--min-fps", min_fps),
        probability=probability,
    )
    asked = Asked(
        runs=run_places(runs),
        networks=named_networks(models, batches, precisions),
        batches=batches,
        precisions=precisions,
        dims=parse_dimensions(dim or []),
        phase=phase,
        modes=modes,
        device=device,
        board=board,
        may_mix=mix,
        calibrate=calibrate,
    )
    if workload is not None:
        recommend_mix(asked, wanted, workload, as_json=as_json)
    else:
        recommend_models(asked, wanted, default, as_json=as_json)
