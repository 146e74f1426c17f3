"""NN-Profiler's files of what Mansard measured, and mappings that are drawn as it draws them.

python -m reproductions.nn_profiler draw resnet50 alexnet --devices gpu,cpu -n 20 -o mappings.json
mansard multi run --mapping mappings.json
mansard measure resnet50 --each-layer all
python -m reproductions.nn_profiler write runs dataset
python -m reproductions.nn_profiler process dataset/Multinet --mode 0 --device Orin processed
python -m reproductions.nn_profiler layers resnet50 alexnet

``draw`` writes mappings for ``mansard multi run``. ``write`` writes what a folder of runs holds: a
file of each mode with the layers that ran alone; for each run of several networks a raw file, and
what NN-Profiler's post-processing makes of it. ``process`` does the same with any raw files.
``layers`` prints how many functional layers networks have, by its definition and by ours. Files of
others are replaced only with --force.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.analytics.data.opening import open_runs
from mansard.cli.measuring.multi import split_devices
from mansard.cli.options import parse_dimensions
from mansard.core.errors import MansardError, UsageError
from mansard.core.storage.files import write_atomic
from mansard.core.text import printable
from mansard.estimator import zoo
from mansard.estimator.scoring import score
from reproductions.nn_profiler.drawing import (
    Drawing,
    cut_nodes,
    draw,
    mappings_json,
    seed_of_mode,
)
from reproductions.nn_profiler.folder import write_profiler_files
from reproductions.nn_profiler.layers import mode_files, parts_of
from reproductions.nn_profiler.modules import functional_layers
from reproductions.nn_profiler.postprocess import PARAMETERS, read_raw
from reproductions.nn_profiler.runs import mode_numbers, processed_files, raw_files, runs_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="reproductions.nn_profiler", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True)
    _add_draw(commands.add_parser("draw", help="mappings at random"))
    write = commands.add_parser("write", help="files of what was measured")
    write.add_argument("runs", type=Path, help="folder of runs")
    write.add_argument("folder", type=Path, help="where the files go")
    write.add_argument("--force", action="store_true", help="replace files of others")
    numbers = "number of a mode, MAXN=0; the others have the next ones, in the order of names"
    write.add_argument("--mode-number", action="append", default=[], metavar="MODE=N", help=numbers)
    write.set_defaults(run=_write)
    process = commands.add_parser("process", help="raw files of several networks, processed")
    process.add_argument("raw", type=Path, help="folder with Mode<N>")
    process.add_argument("folder", type=Path, help="where the files go")
    process.add_argument("--mode", type=int, required=True, help="number of the mode")
    process.add_argument("--device", choices=list(PARAMETERS), default="Orin")
    process.add_argument("--force", action="store_true", help="replace files of others")
    process.set_defaults(run=_process)
    layers = commands.add_parser("layers", help="functional layers of networks")
    layers.add_argument("models", nargs="+", help="names of the zoo")
    layers.set_defaults(run=_layers)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except MansardError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _add_draw(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="+", help="ONNX files, or names of the zoo")
    add("--devices", required=True, help="gpu, dla0, cpu, cpu:0-3")
    add("-n", "--mappings", type=int, required=True, help="how many")
    add("--networks", help="of a mapping: 5-10; of each number as many mappings; all by default")
    add("--per-set", type=int, default=20, help="mappings of the same networks")
    add("--priorities", help="how often each of --devices is taken: 1,2; all alike by default")
    add("--most-split", type=int, help="networks of a mapping that are split, at most")
    add("--gpu-only", action="store_true", help="all on the GPU once for each set")
    add("--single", action="store_true", help="first each network alone, on each device")
    add("--seed", type=int, default=0, help="the same seed, the same mappings")
    add("--mode", help="draw other mappings for this mode: the seed is of --seed and its name")
    add("--dim", action="append", default=[], help="size of a dimension: sequence=128")
    add("-o", "--output", type=Path, default=Path("mappings.json"))
    parser.set_defaults(run=_draw)


def _draw(options: argparse.Namespace) -> None:
    if len(set(options.models)) < len(options.models):
        raise UsageError("a network is named twice", fix="name it once: it is drawn once")
    devices, most_split = split_devices(options.devices), options.most_split
    drawing = Drawing(
        n_mappings=options.mappings,
        n_networks=_range(options.networks),
        per_set=options.per_set,
        priorities=_numbers(options.priorities),
        most_split=0,
        has_gpu_only=options.gpu_only,
        has_single=options.single,
        seed=seed_of_mode(options.seed, options.mode) if options.mode else options.seed,
    )
    cuts = dict.fromkeys(options.models, tuple[int, ...]())
    draw(cuts, devices, drawing)  # what is wrong, before networks are cut
    drawing = msgspec.structs.replace(drawing, most_split=most_split)
    if len(devices) > 1 and most_split != 0:
        cuts = {model: cut_nodes(model, parse_dimensions(options.dim)) for model in cuts}
    mappings = draw(cuts, devices, drawing)
    n_drawn = len(mappings) - (len(cuts) * len(devices) if options.single else 0)
    if n_drawn < options.mappings:
        print(
            f"{n_drawn} mappings, not {options.mappings}: no more that differ were found among "
            "these networks and devices",
            file=sys.stderr,
        )
    write_atomic(options.output, mappings_json(mappings))
    print(f"written: {options.output}", file=sys.stderr)


def _write(options: argparse.Namespace) -> None:
    dataset = open_runs([options.runs], newest_only=True)
    parts, runs = parts_of(dataset), runs_of(dataset)
    given = dict(map(_mode_number, options.mode_number))
    numbers = mode_numbers([mode for _, mode, _ in (*parts, *runs)], given)
    for mode, number in numbers.items():
        print(f"Mode{number}: {mode}", file=sys.stderr)
    raw = raw_files(runs, dataset.scores, numbers)
    files = mode_files(parts, numbers) | raw | processed_files(raw, runs)
    for path in write_profiler_files(files, options.folder, replaces=options.force):
        print(f"written: {path}", file=sys.stderr)


def _process(options: argparse.Namespace) -> None:
    files = read_raw(options.raw, options.mode, options.device)
    for path in write_profiler_files(files, options.folder, replaces=options.force):
        print(f"written: {path}", file=sys.stderr)


def _layers(options: argparse.Namespace) -> None:
    print("network: nodes here - no modules - called again + not in the file = NN-Profiler's")
    for model in options.models:
        counts = functional_layers(model, score(zoo.read(model), name=model, batch=1).layers)
        unseen = "unknown"
        if counts.unseen is not None:
            unseen = " ".join(f"{n} {name}" for name, n in counts.unseen.items())
        theirs = "unknown" if counts.theirs is None else counts.theirs
        between = f"{counts.no_modules} - {counts.calls_again} + ({unseen})"
        print(f"{printable(model)}: {counts.ours} - {between} = {theirs}")


def _mode_number(text: str) -> tuple[str, int]:
    """``MAXN=0``; raises UsageError."""
    mode, is_there, number = text.rpartition("=")
    if not (mode and is_there and number.isdecimal() and len(number) < 10):
        raise UsageError(f"--mode-number {text!r} is not a mode's number", fix="write MAXN=0")
    return mode, int(number)


def _range(text: str | None) -> tuple[int, int] | None:
    """``5-10`` or ``5``; raises UsageError."""
    if text is None:
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise UsageError(f"--networks {text!r} is no range", fix="write 5-10")
    return int(first), int(last or first)


def _numbers(text: str | None) -> tuple[float, ...]:
    """``1,2.5``; raises UsageError."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"--priorities {text!r} are no numbers", fix="write 1,2") from None


if __name__ == "__main__":
    sys.exit(main())
