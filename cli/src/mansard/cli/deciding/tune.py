"""``offload tune``: which samples a small network keeps and which it offloads, by mode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data.quantities import counted
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, print_json, print_lines
from mansard.cli.options import (
    MOST_SEED,
    AllowMixedOption,
    BoardOption,
    DeviceOption,
    ForceOption,
    JsonOption,
    ProbabilityOption,
    RunsOption,
    check_outputs,
    parse_precisions,
)
from mansard.cli.tables import print_tables, without_silent
from mansard.core.table import Table
from mansard.core.units import parse_optional, parse_share

_Text = str | None


def tune(
    samples: Annotated[
        Path | None,
        typer.Argument(metavar="SAMPLES", help="Recorded samples: .npz, .csv or .parquet of p1, "
                       "p2, predicted, label and remote.", readable=False),
    ] = None,
    network: Annotated[
        _Text, typer.Option(help="Instead of SAMPLES: an ONNX file to run on this CPU.")
    ] = None,
    remote_network: Annotated[
        _Text, typer.Option(help="ONNX file of the remote network, to run here too.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Labelled samples for --network: an .npz, a folder of images or a CIFAR "
            ".bin. With SAMPLES: their labels.", readable=False),
    ] = None,
    remote_predictions: Annotated[
        Path | None,
        typer.Option(help="Text file of the remote answers, one class a line.", readable=False),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels of --data, if it has none.", readable=False)
    ] = None,
    preprocess: Annotated[
        _Text, typer.Option(help="Preprocessing of images, as for measure; imagenet by default.")
    ] = None,
    n_samples: Annotated[
        int | None,
        typer.Option(min=1, max=100_000_000, help="Use N evenly spaced samples of --data."),
    ] = None,
    judge: Annotated[
        Path | None, typer.Option(help="Samples to evaluate on; half of SAMPLES by default.",
                                  readable=False)
    ] = None,
    local: Annotated[
        _Text, typer.Option(help="Network of --runs on the device.")
    ] = None,
    offload: Annotated[
        _Text, typer.Option(help="Network of --runs that an offload runs, on the same board.")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="CSV table of costs by power mode.", readable=False)
    ] = None,
    local_latency: Annotated[_Text, typer.Option(
        help="Time of a sample: 1.2ms, 1.2ms±0.1ms.")] = None,
    local_energy: Annotated[_Text, typer.Option(help="Energy of a sample: 5mJ, 5mJ±4%.")] = None,
    decision_latency: Annotated[
        _Text, typer.Option(help="Time of the decision; measured here by default.")
    ] = None,
    decision_energy: Annotated[
        _Text, typer.Option(help="Energy of the decision; from the local power by default.")
    ] = None,
    offload_latency: Annotated[
        _Text, typer.Option(help="Time until the remote answer arrives.")
    ] = None,
    offload_energy: Annotated[_Text, typer.Option(
        help="Energy of the device for an offload.")] = None,
    max_latency: Annotated[_Text, typer.Option(help="Mean time limit of a sample: 5ms.")] = None,
    max_energy: Annotated[_Text, typer.Option(help="Mean energy limit of a sample: 20mJ.")] = None,
    min_accuracy: Annotated[_Text, typer.Option(help="Minimum accuracy: 0.9 or 90%.")] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            min=0, max=1_000_000,
            help="Cost of an offload; a wrong answer costs 1.",
        ),
    ] = None,
    minimise: Annotated[
        Literal["accuracy", "latency", "energy", "cost"] | None,
        typer.Option(
            "--minimise",
            "--minimize",
            help="Quantity to optimise."),
    ] = None,
    probability: ProbabilityOption = 0.9,
    rule: Annotated[
        Literal["threshold", "logistic", "published"] | None,
        typer.Option(
            help="Decide by p1, a logistic of p1 and p2, or --logistic; the best by default."),
    ] = None,
    logistic: Annotated[
        _Text, typer.Option(
            help="Published logistic: β,w1,w2, or one of DIME's, such as resnet8-fp.")
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Weight right and wrong samples equally.")
    ] = False,
    held_out: Annotated[
        float | None,
        typer.Option(
            min=0, max=1,
            help="Share of samples to evaluate on; a half by default. 0 uses all for both.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of random numbers.")] = 0,
    bins: Annotated[int, typer.Option(min=1, max=1000, help="Bins of the calibration error.")] = 15,
    replay: Annotated[
        int,
        typer.Option(
            min=0, max=100_000_000,
            help="Replay HI-LCB on N samples; needs --beta.",
        ),
    ] = 0,
    curve: Annotated[
        Path | None, typer.Option(help="CSV file to write, with every threshold.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    keep: Annotated[
        _Text, typer.Option(help="Keep the answer in --runs under this name, for mansard report.")
    ] = None,
    runs: RunsOption = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="Precision of the networks of --runs.")
    ] = None,
    mode: Annotated[
        _Text, typer.Option(help="Modes to choose from, as for bench.")
    ] = None,
    device: DeviceOption = None,
    board: BoardOption = None,
    allow_mixed: AllowMixedOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Choose which samples a small network offloads, and the power mode.

    Searches every threshold of every mode on one part of the samples and evaluates on the rest,
    compared with never, always and random offloading. Sets nothing.
    """
    check_outputs((curve, html), force=force)
    texts = {
        ("local_s", "--local-latency", "time"): local_latency,
        ("decision_s", "--decision-latency", "time"): decision_latency,
        ("offload_s", "--offload-latency", "time"): offload_latency,
        ("local_j", "--local-energy", "energy"): local_energy,
        ("decision_j", "--decision-energy", "energy"): decision_energy,
        ("offload_j", "--offload-energy", "energy"): offload_energy,
    }
    given = {
        name: amount
        for (name, option, kind), text in texts.items()
        if (
            amount := command_line.parse_amount(
                option, text, "time" if kind == "time" else "energy"
            )
        )
    }
    answer = api.tune_offload(
        api.TuneRequest(
            samples=samples,
            data=api.AccuracySettings(
                data=data, labels=labels, preprocess=preprocess, n_samples=n_samples
            ),
            network=network,
            remote_network=remote_network,
            predictions=remote_predictions,
            judged_on=judge,
            given=given,
            table=costs,
            local=local,
            offload=offload,
            measured=api.PredictionRequest(
                runs=tuple(runs or ("runs",)),
                precisions=parse_precisions(precision),
                modes=mode,
                device=device,
                board=board,
                allow_mixed=allow_mixed,
            ),
            goal=api.Goal(
                minimise=minimise,
                max_latency_s=parse_optional("--max-latency", max_latency, "time"),
                max_energy_j=parse_optional("--max-energy", max_energy, "energy"),
                min_accuracy=(
                    None if min_accuracy is None else parse_share("--min-accuracy", min_accuracy)
                ),
                offload_cost=beta,
                probability=probability,
            ),
            settings=api.HiSettings(
                held_out=held_out,
                seed=seed,
                rule="published logistic" if rule == "published" else rule,
                published=None if logistic is None else command_line.parse_logistic(logistic),
                is_balanced=balanced,
                n_bins=bins,
                n_replayed=replay,
            ),
            curve=curve,
            page=html,
            name=keep,
        ),
        TerminalReporter(),
    )
    if as_json:
        print_json("offload-tune", answer)
        return
    print_tables(_tables(answer))
    print_lines((answer.sentence, *(f"  note: {line}" for line in answer.notes)))


def _tables(answer: results.Hierarchical) -> list[Table]:
    """The rules and baselines in the chosen mode; the best threshold of each mode of several."""
    if answer.chosen is None:
        return []
    where = "held out" if answer.is_held_out else "all"
    title = f"{counted(answer.n_judged, 'sample')} ({where})"
    tables = [(f"Rules on {title}", answer.rules)]
    if len(answer.modes) > 1:
        tables.append((f"The best threshold of each mode, on {title}", answer.modes))
    return [
        without_silent(
            Table(
                name, pages.POINT_COLUMNS, [pages.point_cells(point, answer) for point in points]
            ),
            {"mode", "latency", "energy", "cost", "limits"},
        )
        for name, points in tables
    ]
