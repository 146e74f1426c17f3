"""``mansard offload``: a large network served over HTTP, and a small one measured beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard import api
from mansard.analytics import pages
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, flush_output, note, print_json, print_lines
from mansard.cli.json_output import print_json_line
from mansard.cli.options import (
    AgainOption,
    BoardOption,
    JsonOption,
    KeptRunsOption,
    LabelOption,
    ModeOption,
    PickOption,
    ProviderOption,
    parse_duration,
)
from mansard.cli.tables import print_tables, without_silent
from mansard.core.units import parse_share

ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Threads of the engine; one per CPU by default."),
]


def serve_network(
    model: Annotated[str, typer.Argument(help="ONNX file of a classifier with trained weights.")],
    listen: Annotated[
        str, typer.Option(help="Address: HOST:PORT; local connections only by default.")
    ] = "127.0.0.1:8500",
    preprocess: Annotated[
        str | None, typer.Option(
            help="Preprocessing of images, as for measure; imagenet by default.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precision: fp32 or fp16; the file's by default.")
    ] = None,
    provider: ProviderOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Serve the larger network MODEL with ONNX Runtime until Ctrl-C.

    Requests have one sample and run one at a time. With MANSARD_SERVER_KEY set, clients must send
    the same token.
    """
    request = command_line.ServeRequest(
        model=model,
        listen=listen,
        preprocess=preprocess,
        precision=precision,
        provider=provider,
        threads=threads,
    )
    with command_line.serve_network(request, TerminalReporter()) as server:
        if as_json:
            print_json_line("offload-serve", {"address": server.address, "served": server.served})
        else:
            print_lines((f"serving {server.served.model} on {server.address}",))
        flush_output()
        server.serve_forever()


def run_offload(
    network: Annotated[
        str, typer.Argument(help="ONNX file of the small classifier, with trained weights.")
    ],
    server: Annotated[str, typer.Option(help="Address of the offload server: http://host:8500.")],
    data: Annotated[
        Path, typer.Option(help="Samples: an .npz, a folder of images, a .bin of CIFAR.",
                           readable=False)
    ],
    threshold: Annotated[
        str | None, typer.Option(help="Offload below this confidence: 0.8, 80%.")
    ] = None,
    logistic: Annotated[
        str | None, typer.Option(
            help="Confidence function: β,w1,w2, or one of DIME's, such as resnet8-fp; p1 by "
            "default.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels of --data, if it has none.", readable=False)
    ] = None,
    preprocess: Annotated[
        str | None, typer.Option(help="Preprocessing of images; imagenet by default.")
    ] = None,
    n_samples: Annotated[
        int | None, typer.Option(min=1, max=100_000_000,
                                 help="Use N evenly spaced samples of --data.")
    ] = None,
    block: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Consecutive samples of one kind.")
    ] = 1000,
    timeout: Annotated[
        str | None, typer.Option(help="Time limit of the server's answer; 30s by default.")
    ] = None,
    provider: ProviderOption = None,
    threads: ThreadsOption = None,
    mode: ModeOption = None,
    pick: PickOption = None,
    label: LabelOption = "",
    again: AgainOption = False,
    runs: KeptRunsOption = Path("runs"),
    board: BoardOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Measure NETWORK with a larger network on a server, end to end.

    Each block of samples runs locally, on the server, and by the rule. Finished runs are reused.
    """
    logistic_of = None if logistic is None else command_line.parse_logistic(logistic)
    request = command_line.OffloadRequest(
        network=network,
        server=server,
        data=api.AccuracySettings(
            data=data, labels=labels, preprocess=preprocess, n_samples=n_samples
        ),
        threshold=None if threshold is None else parse_share("--threshold", threshold),
        logistic=None
        if logistic_of is None
        else (logistic_of.intercept, logistic_of.w1, logistic_of.w2),
        provider=provider,
        threads=threads,
        block=block,
        timeout_s=30.0 if timeout is None else parse_duration("--timeout", timeout),
        label=label,
        is_again=again,
        mode=mode,
        pick=pick,
        runs=runs,
        board=board,
    )
    result = command_line.run_offload(request, TerminalReporter())
    if as_json:
        print_json("offload-run", {"measured": result.measured})
    else:
        for measured in result.measured:
            print_offload(measured)
    result.check()


def print_offload(measured: results.MeasuredOffload) -> None:
    """Print what was measured with one server in one mode."""
    print_tables([without_silent(t, {"energy"}) for t in pages.offload_tables(measured)])
    print_lines((pages.offload_words(measured),))
    for why in measured.disturbances:
        note(f"{measured.mode}: disturbed: {why}")
    if measured.n_missing:
        note(f"{measured.mode}: {measured.n_missing:,} samples are not measured yet")
