"""Estimates compared with recorded counters, as tables in Markdown.

``python benchmarks/recorded_counters.py [FOLDER] > docs/results/counters.md``: FOLDER is
../shared/data/ncu by default. The networks are those of ``recorded/counted_networks.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from recorded.counted_networks import Network, attention, deeponet, flash_attention, fno

from mansard.analytics.data.names import kernel_text
from mansard.analytics.data.quantities import quantity, seconds
from mansard.analytics.models.counters.by_kernel import memory_of
from mansard.analytics.models.counters.check import CheckedPart, check_network
from mansard.analytics.models.counters.estimates import parts_of
from mansard.analytics.models.counters.importing import (
    ExportOrigin,
    ImportedCounters,
    import_counters,
)
from mansard.analytics.models.counters.matching import match
from mansard.analytics.pages.tables.counters import checked_table
from mansard.core.errors import InputError
from mansard.core.records import KernelCounters

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "../shared/data/ncu"
MIB = 1 << 20


class Case(NamedTuple):
    """An export, the network that ran in it, and what says the network's sizes."""

    name: str
    build: Callable[[], tuple[Network, str]]
    export: str
    sizes: str


ORIN, A100 = "joshua41057__orin_nano_{}_raw_wide.csv", "leleucas__A100_{}.csv"
CASES = (
    Case(
        "DeepONet", deeponet, ORIN.format("deeponet_fp16_native_ncu"), "grids; 14,700 and 6: bytes"
    ),
    Case("attention", attention, A100.format("bert_attention_torch_fp32_ncu_long"), "bytes"),
    Case(
        "fused attention",
        flash_attention,
        A100.format("bert_attention_flashattn_fp16_ncu_long"),
        "those above",
    ),
)
FNO = ORIN.format("fno_fp32_ncu")


def main(arguments: Sequence[str]) -> None:
    """Prints the tables."""
    folder = Path(arguments[0]) if arguments else DEFAULT_FOLDER
    print(HEAD)
    for line in (*_gemm(folder), *_files(folder), *_networks(folder), *_operators(folder)):
        print(line.replace("\u00a0", " "))
    print(*_fno(folder), sep="\n")
    print(ENDING)


class Machine(NamedTuple):
    """What ran an export, and how: its name says it."""

    name: str
    sm: int
    cache_bytes: int
    precision: str


def _machine(export: str) -> Machine:
    precision = "fp16" if "fp16" in export else "fp32"
    if "A100" in export:
        return Machine("A100", 80, 40 * MIB, precision)
    return Machine("Orin Nano", 87, 2 * MIB, precision)


def _imported(folder: Path, export: str) -> ImportedCounters:
    machine = _machine(export)
    origin = ExportOrigin(device="", precision=machine.precision, compute_capability=machine.sm)
    return import_counters(folder / export, origin)


def _rows(folder: Path, export: str) -> tuple[KernelCounters, ...]:
    return _imported(folder, export).rows


def _gemm(folder: Path) -> Iterator[str]:
    row = _rows(folder, CASES[0].export)[21]
    tensor = next(work.flop for work in row.work if work.unit == "tensor core")
    memory = row.traffic[-1]
    m, n, k = 32768, 256, 256
    known = (
        ("FLOP of the tensor cores", 2.0 * m * n * k, tensor),
        ("FLOP by the rule of Pagoda's `ert_method.py`", 2.0 * m * n * k, row.pagoda_flop or 0),
        ("bytes read", 2.0 * (m * k + k * n), memory.read_bytes or 0),
        ("bytes written", 2.0 * m * n, memory.write_bytes or 0),
    )
    yield "## A product whose work is known"
    yield ""
    yield (
        f"`{row.kernel}` on an Orin Nano, grid {row.grid}: {m} × {k} by {k} × {n} in fp16, "
        f"{seconds(row.time_s)} at {(row.clocks_hz['gpc']) / 1e9:.3f} GHz."
    )
    yield ""
    yield "| quantity | by arithmetic | counted | off |"
    yield "|---|---|---|---|"
    for what, expected, counted in known:
        yield f"| {what} | {expected:,.0f} | {counted:,.0f} | {abs(counted / expected - 1):.2%} |"
    yield ""
    yield (
        "Pagoda's rule counts 2048 FLOP for each tensor instruction; these have 16 × 8 × 16, 4096."
    )
    yield ""


def _files(folder: Path) -> Iterator[str]:
    yield "## Every recorded export"
    yield ""
    yield "| file | form | launches | with time | with work | with both directions of memory |"
    yield "|---|---|---|---|---|---|"
    for path in sorted(folder.glob("*.*")):
        try:
            found = _imported(folder, path.name)
        except InputError as error:
            yield f"| `{path.name}` | refused: {error.what.partition(':')[0]} | | | | |"
            continue
        rows = found.rows
        n_all = sum(row.n_launches for row in rows)
        timed = sum(row.time_s is not None for row in rows)
        worked = sum(row.work_flop is not None for row in rows)
        moved = sum(
            (m := memory_of(row)) is not None and m.traffic_bytes is not None for row in rows
        )
        shares = (f"{known}/{len(rows)}" for known in (timed, worked, moved))
        yield f"| `{path.name}` | {found.form} | {n_all:,} | {' | '.join(shares)} |"
    yield ""


def _networks(folder: Path) -> Iterator[str]:
    checked = []
    for case in CASES:
        net, out = case.build()
        machine, rows = _machine(case.export), _rows(folder, case.export)
        score = net.score(out, machine.precision)
        one = check_network(score, rows, cache_bytes=machine.cache_bytes)
        checked.append((case, f"{case.name}, {machine.precision}", machine.name, one))
    yield "## Networks"
    yield ""
    yield (
        "Sums over the layers with a kernel. Where sizes were derived from bytes, the ratio of "
        "bytes tests nothing. ≥: plain half instructions were not counted. Nsight Compute flushes "
        "the caches before each kernel, so estimates are without a cache."
    )
    yield ""
    yield (
        "| network | device | sizes from | layers | with a kernel | share of the kernels' time "
        "| work estimated | counted | ratio | bytes estimated | counted | ratio |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for case, name, device, one in checked:
        own = [part for part in one.parts if part.kernels]
        work, least = _sum(own, "estimated_flop"), _sum(own, "least_flop")
        moved, counted = _sum(own, "estimated_bytes"), _sum(own, "counted_bytes")
        mark = "" if all(part.counted_flop is not None for part in own) else "≥ "
        yield (
            f"| {name} | {device} | {case.sizes} | {len(one.parts)} | {len(own)} "
            f"| {one.matched_share or 0:.0%} | {quantity(work, 'FLOP')} "
            f"| {mark}{quantity(least, 'FLOP')} | {mark}{least / work:.3f} "
            f"| {quantity(moved, 'B')} | {quantity(counted, 'B')} | {counted / moved:.3f} |"
        )
    yield ""
    for case, name, device, one in checked:
        yield f"### {name}, on {device}"
        yield ""
        yield (str(case.build.__doc__).split("\n")[0])
        yield ""
        table = checked_table(one)
        keep = [at for at, name in enumerate(table.columns) if name != "Layer time"]
        yield f"| {' | '.join(table.columns[at] for at in keep)} |"
        yield "|" + "---|" * len(keep)
        for row in table.rows:
            yield f"| {' | '.join(row[at] for at in keep)} |"
        yield ""


def _sum(parts: Sequence[CheckedPart], name: str) -> float:
    return sum(getattr(part, name) or 0.0 for part in parts)


def _operators(folder: Path) -> Iterator[str]:
    yield "## Single operators of an A100"
    yield ""
    yield (
        "Counted over estimated, fp32, one operator a row; tiles are unknown. Results stay in the "
        "L2 cache of 40 MB, so DRAM is compared with bytes read where both tensors fit."
    )
    yield ""
    yield "| operator | quantity | rows | first quartile | median | third quartile | within 5 % |"
    yield "|---|---|---|---|---|---|---|"
    relus = _relus(folder)
    for what, ratios in (*_linears(folder), *_relu_ratios(relus)):
        low, _, high = quantiles(ratios, n=4)
        near = sum(abs(ratio - 1) <= 0.05 for ratio in ratios) / len(ratios)
        yield (
            f"| {what} | {len(ratios):,} | {low:.3f} | {median(ratios):.3f} | {high:.3f} "
            f"| {near:.0%} |"
        )
    yield ""
    kept = [(r.traffic - r.dram) / MIB for r in relus if r.traffic > 40 * MIB]
    yield (
        f"{min(kept):.1f} to {max(kept):.1f} MiB of each of the {len(kept):,} larger ReLUs stay in "
        "the L2 cache."
    )
    yield ""


def _linears(folder: Path) -> Iterator[tuple[str, list[float]]]:
    work, read = [], []
    estimated: dict[tuple[int, int, int], tuple[float, float]] = {}
    for row in _rows(folder, A100.format("linear_ncu")):
        sides = dict(part.split("=") for part in row.kernel.split(", "))
        n, n_in, n_out = (int(float(sides[name])) for name in ("N", "cin", "cout"))
        if (n, n_in, n_out) not in estimated:
            net = Network()
            out = net.linear(net.input("x", (n, n_in)), n_in, n_out)
            layer = net.score(out).layers[-1]
            estimated[n, n_in, n_out] = (layer.work_flop or 0, layer.read_bytes or 0)
        flop, bytes_ = estimated[n, n_in, n_out]
        memory = memory_of(row)
        if row.work_flop:
            work.append(row.work_flop / flop)
        if memory is not None and memory.traffic_bytes:
            read.append(memory.traffic_bytes / bytes_)
    yield "linear | FLOP", work
    yield "linear | DRAM bytes over bytes read", read


class Relu(NamedTuple):
    """Bytes of a ReLU: counted at the L1 and the DRAM, estimated of what is read and of both."""

    l1: float
    dram: float
    read: float
    traffic: float


def _relus(folder: Path) -> list[Relu]:
    """All of the table, with the shapes beside it."""
    shapes = json.loads((folder / "leleucas__A100_relu_shapes.json").read_text())["input_size"]
    estimated: dict[tuple[int, ...], tuple[float, float]] = {}
    found = []
    for shape, row in zip(shapes, _rows(folder, A100.format("relu_ncu")), strict=True):
        key = tuple(shape)
        if key not in estimated:
            net = Network()
            (layer,) = net.score(net.node("Relu", net.input("x", key))).layers
            estimated[key] = (layer.read_bytes or 0, layer.traffic_bytes or 0)
        traffic = {each.level: each.traffic_bytes or 0 for each in row.traffic}
        found.append(Relu(traffic["L1"], traffic["memory"], *estimated[key]))
    return found


def _relu_ratios(relus: Sequence[Relu]) -> Iterator[tuple[str, list[float]]]:
    yield "ReLU | L1 bytes over bytes of both tensors", [r.l1 / r.traffic for r in relus]
    small = [r.dram / r.read for r in relus if r.traffic <= 40 * MIB]
    yield "ReLU, both tensors in 40 MB | DRAM bytes over bytes read", small
    large = [r.dram / r.traffic for r in relus if r.traffic > 40 * MIB]
    yield "ReLU, larger | DRAM bytes over bytes of both tensors", large


def _fno(folder: Path) -> Iterator[str]:
    net, out = fno()
    parts = parts_of(net.score(out), fused=False)
    matching = match(parts, _rows(folder, FNO))
    yield "## Fourier neural operator on an Orin Nano"
    yield ""
    yield (
        "This export counts neither FP32 instructions nor writes: only bytes read are compared, "
        "for layers outside the Fourier transforms."
    )
    yield ""
    yield "| layer | kernel | bytes read, estimated | counted | ratio |"
    yield "|---|---|---|---|---|"
    for at, part in enumerate(parts):
        for row in matching.kernels.get(at, ()):
            counted = next(each.read_bytes for each in row.traffic if each.level == "memory") or 0
            expected = part.read_bytes or 0
            yield (
                f"| {part.name} | {kernel_text(row.kernel)} | {expected:,.0f} | {counted:,.0f} "
                f"| {counted / expected:.3f} |"
            )
    yield ""


HEAD = """# Estimates against recorded counters

`python benchmarks/recorded_counters.py`: recorded exports of Nsight Compute compared with
estimates, as by `mansard models ncu check`. The networks are rebuilt from grids, tiles and bytes
of the kernels, and kernels are joined by order and size, as no export has NVTX ranges. Mansard
itself has not counted a network yet.
"""
ENDING = """## What the differences are

- **Padding to tiles** is exact where the kernel's name has its tile: 31 to 42 times the work for 20
  rows in tiles of 128, 16 times for one column in tiles of 16.
- **Split sums** write and read partial results: 36 % more bytes for products of 40 rows.
- **Kept in the cache**: results that do not reach the DRAM before the next kernel.
- **Code and parameters**: 4 to 24 kB a kernel, more than 5 % in small layers only.
- **Operations as several instructions**: a Gelu is 5 FLOP here and 19 in FP32 instructions, a
  Softmax 31 kFLOP and at least 264; their bytes determine the time.
- **Not explained**: the fused attention does 10 times the work; its tiles are unknown.
- **Pagoda's rule** counts half of a product of 16 × 8 × 16 instructions, and plain half
  instructions as products: 1.3 MFLOP for a transposition, 2.7 times ours for a Gelu.

The other exports (summary by kernel, details page, text) have times and clocks only;
`mansard models ncu import` refuses them and names the metrics to collect.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
