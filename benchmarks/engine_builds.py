"""Every network of the zoo through a real TensorRT builder, without a card.

    MANSARD_TENSORRT=tensorrt_rtx_bindings python benchmarks/engine_builds.py --rows builds.jsonl

Needs the extra trt-test (``make builder``). Each network is prepared as ``measure`` prepares it and
built in fp32, fp16 and int8 (with QuantizeLinear nodes), and in fp32 for any batch from 1 to 8;
each in a process of its own, one after the other. ``--capability``: of the device that it is built
for. What is in the file of rows already is not built again. Prints the table of docs/results.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator import zoo
from mansard.inference.engines.tensorrt.building import build
from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE
from mansard.inference.plan import BuildSettings, BuildTrial, ShapeRange
from mansard.inference.preparing import prepare, write
from mansard.inference.preparing.networks import Calibrating, PreparedNetwork

WAYS = ("fp32", "fp16", "int8", "batches")
LEAST, USUAL, MOST = 1, 4, 8  # batches
SEED = 1
TITLES = {
    "fp32": "fp32",
    "fp16": "fp16",
    "int8": "int8, Q/DQ",
    "batches": f"fp32, batch {LEAST} to {MOST}",
}
HEAD = """# The zoo through a real TensorRT builder

`python benchmarks/engine_builds.py`: TensorRT for RTX builds for compute capability {capability}
on a machine without a card; nothing was run. Batch 1 in fp32, fp16 (converted) and int8 (Q/DQ,
random data), and fp32 for batch {least} to {most}, optimised for {usual}. Seconds from file to
engine file on two busy CPUs, MB of the engine file, layers of the parser in fp32. The builder
keeps no timing cache.

| network | layers | fp32 s | MB | fp16 s | MB | int8 s | MB | batches s | MB |
|---|---|---|---|---|---|---|---|---|---|"""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One network built in one way, or why it was not."""

    network: str
    way: str
    prepared_s: float | None = None
    build_s: float | None = None
    n_layers: int | None = None
    engine_bytes: int | None = None
    timing_cache: str = ""
    failure: str = ""


def main() -> None:
    """Build what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--networks", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--capability", default="8.6")
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "WAY"))
    options = parser.parse_args()
    os.environ.setdefault(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    if options.one:
        name, way = options.one
        print(msgspec.json.encode(build_one(name, way, options.capability)).decode())
        return
    names = options.networks.split(",") if options.networks else zoo.names()
    rows = read(options.rows)
    with options.rows.open("a") as stream:
        for name in names:
            for way in filter(None, options.ways.split(",")):
                if (name, way) not in rows:
                    row = in_a_process(name, way, options.capability)
                    rows[name, way] = row
                    stream.write(msgspec.json.encode(row).decode() + "\n")
                    stream.flush()
                    print(row, file=sys.stderr)
    print_table(names, rows, options.capability)


def read(path: Path) -> dict[tuple[str, str], Row]:
    """The rows that are there, by network and way."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [msgspec.json.decode(line, type=Row) for line in lines]
    return {(row.network, row.way): row for row in found}


def in_a_process(name: str, way: str, capability: str) -> Row:
    """The row of a process of its own, which may crash."""
    command = [sys.executable, __file__, "--rows", os.devnull, "--capability", capability]
    done = subprocess.run(
        [*command, "--one", name, way], capture_output=True, text=True, check=False
    )
    try:
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Row)
    except (IndexError, msgspec.DecodeError):
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return Row(
            network=name, way=way, failure=f"the process ended with {done.returncode}: {last}"
        )


def build_one(name: str, way: str, capability: str) -> Row:
    """Prepare and build one network in one way."""
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder, into = Path(scratch) / "files", Path(scratch) / "engines"
        into.mkdir()
        try:
            network = prepared(name, way)
            write(network, folder)
            prepared_s = time.perf_counter() - began_s
        except MansardError as error:
            return Row(network=name, way=way, failure=f"not prepared: {error}")
        began_s = time.perf_counter()
        trial = build_trial(network, way, capability)
        try:
            built = build(trial, folder, into, lambda _now, _at_most_s: None, NoDevice())
        except MansardError as error:
            return Row(network=name, way=way, prepared_s=prepared_s, failure=str(error))
        return Row(
            network=name,
            way=way,
            prepared_s=prepared_s,
            build_s=time.perf_counter() - began_s,
            n_layers=built.n_layers,
            engine_bytes=(into / trial.engine_file).stat().st_size,
            timing_cache=built.timing_cache,
        )


def prepared(name: str, way: str) -> PreparedNetwork:
    """The network as the way needs it."""
    if way == "batches":
        return prepare(name, seed=SEED, batch=USUAL, is_batch_open=True)
    precision = None if way == "fp32" else way
    return prepare(name, seed=SEED, precision=precision, calibrating=Calibrating(form="tensorrt"))


def build_trial(network: PreparedNetwork, way: str, capability: str) -> BuildTrial:
    """The trial of a build for a compute capability."""
    ranges = {
        spec.name: ShapeRange(
            least=(LEAST, *spec.shape[1:]), usual=spec.shape, most=(MOST, *spec.shape[1:])
        )
        for spec in network.input_specs
        if way == "batches"
    }
    return BuildTrial(
        model=network.model,
        model_hash=network.model_hash,
        file=network.file,
        file_hash=network.file_hash,
        input_specs=network.input_specs,
        precision=network.precision,
        batch=network.batch,
        dimensions=network.dimensions,
        engine="tensorrt",
        settings=BuildSettings(compute_capability=capability, ranges=ranges),
        engine_file=f"{network.model}.engine",
    )


class NoDevice:
    """No device is there: nothing is asked of it where a compute capability is named."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a device that is not there")


def print_table(names: Sequence[str], rows: dict[tuple[str, str], Row], capability: str) -> None:
    """The document of docs/results: the table, and beneath it each refusal."""
    print(HEAD.format(capability=capability, least=LEAST, usual=USUAL, most=MOST))
    for name in names:
        found = [rows.get((name, way)) for way in WAYS]
        n_layers = next((row.n_layers for row in found if row and row.n_layers), "–")
        print(f"| {name} | {n_layers} | {' | '.join(_cells(row) for row in found)} |")
    print("\n| | parsed and built | seconds in all | longest |\n|---|---|---|---|")
    for way in WAYS:
        times_s = [row.build_s for row in rows.values() if row.way == way and row.build_s]
        longest_s = max(times_s, default=0.0)
        built = f"{len(times_s)} of {len(names)}"
        print(f"| {TITLES[way]} | {built} | {sum(times_s):.0f} | {longest_s:.0f} |")
    failed = [row for row in rows.values() if row.failure and row.network in names]
    print("\nNot built:\n" if failed else "\nNothing was refused.")
    for row in failed:
        print(f"- {row.network}, {TITLES[row.way]}: {row.failure}")


def _cells(row: Row | None) -> str:
    if row is None or row.build_s is None or row.engine_bytes is None:
        return "– | –"
    return f"{row.build_s:.1f} | {row.engine_bytes / 1e6:.1f}"


if __name__ == "__main__":
    main()
