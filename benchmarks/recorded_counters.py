"""Estimates held against the counters that others recorded, as tables in Markdown.

``python benchmarks/recorded_counters.py [FOLDER] > docs/results/counters.md``: FOLDER is
../shared/data/ncu by default. The networks are built here, of the layers and sizes that the kernels
of each export have: grids, tiles, and bytes say them (docs/results/counters.md lists how).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import onnx
from onnx import TensorProto, helper

from mansard.analytics.counters.by_kernel import memory_of
from mansard.analytics.counters.check import CheckedPart, check_network
from mansard.analytics.counters.estimates import parts_of
from mansard.analytics.counters.importing import ExportOrigin, import_counters
from mansard.analytics.counters.matching import match
from mansard.analytics.data.quantities import quantity, seconds
from mansard.analytics.report.counters import checked_table, kernel_text
from mansard.core.errors import InputError
from mansard.core.records import KernelCounters, ModelScore
from mansard.estimator import score

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "../shared/data/ncu"
MIB = 1 << 20


@dataclass
class Network:
    """An ONNX graph without weights' values, one node after the other."""

    element: int = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def input(self, name: str, shape: Sequence[int]) -> str:
        """An input of the network."""
        self.inputs.append(helper.make_tensor_value_info(name, self.element, shape))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; its name is the output's."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """A weight, as a constant of its shape: no values are kept."""
        value = helper.make_tensor("value", self.element, (1,), [0.0])
        return self.node("ConstantOfShape", self.integers(*shape), value=value)

    def integers(self, *values: int) -> str:
        """A constant of integers, such as a shape."""
        tensor = helper.make_tensor("value", TensorProto.INT64, (len(values),), values)
        return self.node("Constant", value=tensor)

    def split(self, x: str, n: int) -> list[str]:
        """``x`` in ``n`` parts of its last axis."""
        names = [f"{x}_{at}" for at in range(n)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=n))
        return names

    def linear(self, x: str, n_in: int, n_out: int) -> str:
        """``x`` times a weight, with a bias."""
        return self.node("Gemm", x, self.weight(n_in, n_out), self.weight(n_out))

    def score(self, output: str, precision: str, cache_bytes: int) -> ModelScore:
        """What is estimated of it."""
        end = helper.make_tensor_value_info(output, self.element, None)
        graph = helper.make_graph(self.nodes, "network", self.inputs, [end])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets).SerializeToString()
        return score(model, precision=precision, cache_bytes=cache_bytes)


def deeponet() -> tuple[Network, str]:
    """Branch 14700-512-512-512-128 at one function, trunk 6-256-256-256-128 at 281 × 281 points.

    The trunk runs on 32768, 32768 and 13425 points: grids of 512, 512 and 210 tiles of 64 rows.
    """
    net = Network(TensorProto.FLOAT16)
    branch = net.input("function", (1, 14700))
    for n_in, n_out in ((14700, 512), (512, 512), (512, 512)):
        branch = net.node("Gelu", net.linear(branch, n_in, n_out))
    branch = net.node("Reshape", net.linear(branch, 512, 128), net.integers(128, 1))
    found: list[str] = []
    for number, n_points in enumerate((32768, 32768, 13425)):
        trunk = net.input(f"points{number}", (n_points, 6))
        for n_in in (6, 256, 256):
            trunk = net.node("Gelu", net.linear(trunk, n_in, 256))
        found.append(net.node("MatMul", net.linear(trunk, 256, 128), branch))
    return net, net.node("Concat", *found, axis=0)


def attention() -> tuple[Network, str]:
    """Self-attention of 2 sequences of 20 tokens, 256 wide, 8 heads of 32, as PyTorch runs it.

    Copies of 40 kB around each of four products of 40 × 256 by 256 × 256; Softmax of 25.6 kB.
    """
    net = Network()
    found: list[str] = []
    for _ in range(3):
        tokens = net.input(f"tokens{len(found)}", (20, 2, 256))
        product = net.node(
            "MatMul", net.node("Transpose", tokens, perm=[1, 0, 2]), net.weight(256, 256)
        )
        found.append(net.node("Add", product, net.weight(256)))
    # Heads are views there: only the copies that it makes are nodes here.
    q, v = (net.node("Reshape", each, net.integers(2, 8, 20, 32)) for each in (found[0], found[2]))
    k = net.node("Reshape", found[1], net.integers(2, 8, 32, 20))
    weights = net.node("Softmax", net.node("MatMul", net.node("Mul", q, net.weight(1)), k), axis=-1)
    heads = net.node("Transpose", net.node("MatMul", weights, v), perm=[0, 2, 1, 3])
    net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)
    mean = net.node(
        "Mul", net.node("ReduceSum", weights, net.integers(1), keepdims=0), net.weight(1)
    )
    return net, mean


def flash_attention() -> tuple[Network, str]:
    """The same with one packed product before and a fused kernel for all heads."""
    net = Network(TensorProto.FLOAT16)
    tokens = net.input("tokens", (40, 256))
    packed = net.linear(tokens, 256, 768)
    q, k, v = net.split(net.node("Reshape", packed, net.integers(2, 20, 768)), 3)
    heads = net.node("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=8)
    return net, net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)


def fno() -> tuple[Network, str]:
    """What a Fourier neural operator of width 40 does outside of its transforms.

    281 × 281 points of 3 inputs are lifted to 40 channels and padded to 290 × 290: 84,100 points.
    """
    net = Network()
    points = net.input("points", (281 * 281, 3))
    net.node("MatMul", points, net.weight(3, 40))
    ends = []
    for number in range(4):
        padded = net.input(f"padded{number}", (84100, 40))
        spectral = net.input(f"spectral{number}", (84100, 40))
        mixed = net.node("MatMul", padded, net.weight(40, 40))
        both = net.node("Add", mixed, spectral)
        ends.append(net.node("Gelu", both) if number < 3 else both)
    return net, ends[-1]


@dataclass(frozen=True)
class Case:
    """An export and the network that ran in it."""

    name: str
    build: Callable[[], tuple[Network, str]]
    export: str
    device: str
    precision: str
    sm: int
    cache_bytes: int


CASES = (
    Case(
        "DeepONet",
        deeponet,
        "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv",
        "Orin Nano",
        "fp16",
        87,
        2 * MIB,
    ),
    Case(
        "attention",
        attention,
        "leleucas__A100_bert_attention_torch_fp32_ncu_long.csv",
        "A100",
        "fp32",
        80,
        40 * MIB,
    ),
    Case(
        "fused attention",
        flash_attention,
        "leleucas__A100_bert_attention_flashattn_fp16_ncu_long.csv",
        "A100",
        "fp16",
        80,
        40 * MIB,
    ),
)
FNO = "joshua41057__orin_nano_fno_fp32_ncu_raw_wide.csv"


def main(arguments: Sequence[str]) -> None:
    """Prints the tables."""
    folder = Path(arguments[0]) if arguments else DEFAULT_FOLDER
    print(HEAD)
    for line in (*_gemm(folder), *_files(folder), *_networks(folder), *_operators(folder)):
        print(line.replace("\u00a0", " "))
    print(*_fno(folder), sep="\n")
    print(ENDING)


def _rows(folder: Path, export: str, precision: str, sm: int) -> tuple[KernelCounters, ...]:
    origin = ExportOrigin(device="", precision=precision, compute_capability=sm)
    return import_counters(folder / export, origin).rows


def _gemm(folder: Path) -> Iterator[str]:
    case = CASES[0]
    row = _rows(folder, case.export, case.precision, case.sm)[21]
    tensor = next(work.flop for work in row.work if work.unit == "tensor core")
    memory = row.traffic[-1]
    m, n, k = 32768, 256, 256
    known = (
        ("FLOP of the tensor cores", 2.0 * m * n * k, tensor),
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
        yield f"| {what} | {expected:,.0f} | {counted:,.0f} | {counted / expected - 1:+.2%} |"
    yield ""


def _files(folder: Path) -> Iterator[str]:
    yield "## Every recorded export"
    yield ""
    yield "| file | form | launches | with time | with work | with both directions of memory |"
    yield "|---|---|---|---|---|---|"
    for path in sorted(folder.glob("*.*")):
        sm = 80 if "A100" in path.name else 87
        precision = "fp16" if "fp16" in path.name else "fp32"
        try:
            found = import_counters(
                path, ExportOrigin(device="", precision=precision, compute_capability=sm)
            )
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
        score = net.score(out, case.precision, case.cache_bytes)
        rows = _rows(folder, case.export, case.precision, case.sm)
        checked.append((case, check_network(score, rows, cache_bytes=case.cache_bytes)))
    yield "## Networks"
    yield ""
    yield (
        "Sums over the layers that have a kernel. The counted work is at least so much where plain "
        "half instructions were not counted. Nsight Compute empties the caches before each kernel, "
        "so the estimate is that without a cache."
    )
    yield ""
    yield (
        "| network | device | layers | with a kernel | share of the kernels' time | work estimated "
        "| counted | ratio | bytes estimated | counted | ratio |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for case, one in checked:
        own = [part for part in one.parts if part.kernels]
        work, least = _sum(own, "estimated_flop"), _sum(own, "least_flop")
        moved, counted = _sum(own, "estimated_bytes"), _sum(own, "counted_bytes")
        mark = "" if all(part.counted_flop is not None for part in own) else "≥ "
        yield (
            f"| {case.name}, {case.precision} | {case.device} | {len(one.parts)} | {len(own)} "
            f"| {one.matched_share or 0:.0%} | {quantity(work, 'FLOP')} "
            f"| {mark}{quantity(least, 'FLOP')} | {mark}{least / work:.3f} "
            f"| {quantity(moved, 'B')} | {quantity(counted, 'B')} | {counted / moved:.3f} |"
        )
    yield ""
    for case, one in checked:
        yield f"### {case.name}, {case.precision}, on {case.device}"
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
        "Each row of the tables is one operator in fp32 of its own. Counted over estimated; the "
        "middle half lies between the quartiles. The kernels are not named, so padding to their "
        "tiles is not known. What is written stays in the L2 cache of 40 MB, so DRAM is compared "
        "with what is read where both tensors fit, and L1 with all bytes."
    )
    yield ""
    yield "| operator | quantity | rows | first quartile | median | third quartile | within 5 % |"
    yield "|---|---|---|---|---|---|---|"
    relus = _Relus.read(folder)
    for what, ratios in (*_linears(folder), *relus.ratios()):
        low, _, high = quantiles(ratios, n=4)
        near = sum(abs(ratio - 1) <= 0.05 for ratio in ratios) / len(ratios)
        yield (
            f"| {what} | {len(ratios):,} | {low:.3f} | {median(ratios):.3f} | {high:.3f} "
            f"| {near:.0%} |"
        )
    yield ""
    yield relus.kept()
    yield ""


def _linears(folder: Path) -> Iterator[tuple[str, list[float]]]:
    work, read = [], []
    estimated: dict[tuple[int, int, int], tuple[float, float]] = {}
    for row in _rows(folder, "leleucas__A100_linear_ncu.csv", "fp32", 80):
        sides = dict(part.split("=") for part in row.kernel.split(", "))
        n, n_in, n_out = (int(float(sides[name])) for name in ("N", "cin", "cout"))
        if (n, n_in, n_out) not in estimated:
            net = Network()
            out = net.linear(net.input("x", (n, n_in)), n_in, n_out)
            layer = net.score(out, "fp32", 40 * MIB).layers[-1]
            estimated[n, n_in, n_out] = (layer.work_flop or 0, layer.read_bytes or 0)
        flop, bytes_ = estimated[n, n_in, n_out]
        memory = memory_of(row)
        if row.work_flop:
            work.append(row.work_flop / flop)
        if memory is not None and memory.traffic_bytes:
            read.append(memory.traffic_bytes / bytes_)
    yield "linear | FLOP", work
    yield "linear | DRAM bytes over bytes read", read


@dataclass(frozen=True)
class _Relus:
    """L1 bytes, DRAM bytes, and what is estimated of each ReLU: bytes read, and of both tensors."""

    rows: Sequence[tuple[float, float, float, float]]

    @classmethod
    def read(cls, folder: Path) -> _Relus:
        """All of the table, with the shapes beside it."""
        text = (folder / "leleucas__A100_relu_shapes.json").read_text()
        counted = _rows(folder, "leleucas__A100_relu_ncu.csv", "fp32", 80)
        estimated: dict[tuple[int, ...], tuple[float, float]] = {}
        rows = []
        for shape, row in zip(json.loads(text)["input_size"], counted, strict=True):
            key = tuple(shape)
            if key not in estimated:
                net = Network()
                relu = net.node("Relu", net.input("x", key))
                (layer,) = net.score(relu, "fp32", 40 * MIB).layers
                estimated[key] = (layer.read_bytes or 0, layer.traffic_bytes or 0)
            traffic = {each.level: each.traffic_bytes or 0 for each in row.traffic}
            rows.append((traffic["L1"], traffic["memory"], *estimated[key]))
        return cls(rows)

    def ratios(self) -> Iterator[tuple[str, list[float]]]:
        """Counted over estimated, by what is compared."""
        small = [row for row in self.rows if row[3] <= 40 * MIB]
        yield "ReLU | L1 bytes over bytes of both tensors", [r[0] / r[3] for r in self.rows]
        yield (
            "ReLU, both tensors in 40 MB | DRAM bytes over bytes read",
            [r[1] / r[2] for r in small],
        )
        large = [r[1] / r[3] for r in self.rows if r[3] > 40 * MIB]
        yield "ReLU, larger | DRAM bytes over bytes of both tensors", large

    def kept(self) -> str:
        """What of the larger ones does not reach the DRAM."""
        kept = [(r[3] - r[1]) / MIB for r in self.rows if r[3] > 40 * MIB]
        return (
            f"Of the {len(kept):,} larger ReLUs {min(kept):.1f} to {max(kept):.1f} MiB do not "
            "reach the DRAM, whatever their size: the part of the output that the L2 cache still "
            "holds."
        )


def _fno(folder: Path) -> Iterator[str]:
    net, out = fno()
    parts = parts_of(net.score(out, "fp32", 2 * MIB), fused=False)
    matching = match(parts, _rows(folder, FNO, "fp32", 87))
    yield "## Fourier neural operator on an Orin Nano"
    yield ""
    yield (
        "This export has no counters of FP32 instructions and none of writes: what fills the L2 "
        "cache is all that can be compared, for the layers outside of the Fourier transforms."
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

What `mansard ncu check` says of the exports of Nsight Compute that others recorded; made by
`python benchmarks/recorded_counters.py`. The networks are built there, of the layers and sizes
that the kernels show: a grid of 2 × 256 tiles of 128 × 128 is 256 columns and 32,768 rows, and
its bytes say the rest. Kernels are joined to layers by order and size, because no export has NVTX
ranges.
"""
ENDING = """## What the differences are

- **Padding to tiles** is exact where the kernel's name has its tile: 20 rows in tiles of 128 do
  31 to 42 times the work that is asked for, one column in tiles of 16 does 16 times it.
- **Split sums** write and read partial results: the products of 40 rows move 36 % more.
- **Kept in the cache**: what a kernel writes need not reach the DRAM of an A100 before the next
  begins.
- **Code and parameters**: 4 to 24 kB a kernel, which only small layers show.
- **Operations as several instructions**: a Gelu is 5 FLOP in our count and 19 FP32 instructions'
  FLOP on the GPU, a Softmax 31 against 264 kFLOP. Their time is that of their bytes.
- **Not explained**: the fused attention, whose kernel does 10 times the work of 20 × 20 weights;
  its tiles are not in its name.

The exports of the summary by kernel, the text pages and nsys have times and clocks, and no
counter of work or bytes: nothing can be compared.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
