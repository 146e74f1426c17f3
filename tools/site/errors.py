"""The tables of docs/understand/trust.md, from the tables that the benchmarks print.

    python -m tools.site.errors              write them again

Each line names cells of tables elsewhere in the documents, so that no figure is typed twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tools.site.page_tables import DOCS, Cell, Column, Table, cells_of, tables

PAGE = DOCS / "understand/trust.md"
_BLOCK = re.compile(
    r"(<!-- made by `python -m tools.site.errors`: (\w+) -->\n).*?(<!-- end -->)", re.S
)
_HELD, _SCALING, _TRANSFER = (
    "results/held_back.md",
    "understand/scaling.md",
    "understand/board-transfer.md",
)
_WHEELS = ("understand/validation.md", "Networks inside wheels")
_TORCH = ("understand/validation.md", "PyTorch's own counter")
_BEST_C = ("understand/measuring.md", "Against the best C")
_AGAIN = ("understand/prediction.md", "Measured networks")
_INTERVALS = (_HELD, "Intervals, two measured modes and more")
_Boards: TypeAlias = Sequence[tuple[str, str, str]]  # as shown, as in its title, modes measured
_POWERED: _Boards = (
    ("TX2 (VGG19)", "TX2, VGG19 with power", "4"),
    ("GTX 1080 Ti", "GTX 1080 Ti, 30 kernels", "4"),
)
_PINNED: _Boards = (("TX2 (3 networks)", "TX2, 3 networks", "4"), *_POWERED)
_LLM: _Boards = (("Orin Nano Super (LLMs)", "Orin Nano Super, 4 LLMs", "3"),)
_GOVERNED: _Boards = (
    *_LLM,
    ("AGX Orin (STREAM, BLAS)", "AGX Orin 64GB, STREAM and BLAS", "3"),
    ("AGX Orin (eager PyTorch)", "AGX Orin 64GB, eager PyTorch", "3"),
)


@dataclass(frozen=True)
class Line:
    """A row of a table: ``{0}``, ``{1}`` … in its columns are the cells, in order."""

    columns: Sequence[str]
    cells: Sequence[Cell | Column]

    def text(self) -> str:
        """The row in Markdown."""
        said = [each.text() for each in self.cells]
        return f"| {' | '.join(self.columns).format(*said)} |"


def glance() -> list[Line]:
    """What a user reads first: errors, coverage and advice for each kind of number."""
    return [*_counts(), *_modes(), *_networks(), *_decisions()]


def _counts() -> Iterator[Line]:
    rows = (
        "FLOP of multiply-adds within 0.1 % / exact",
        "bytes within 1 % / exact",
        "scored with these sizes given and nothing else",
    )
    yield Line(
        (
            "[FLOP and bytes](validation.md) of a network",
            "runs within 0.1 % of FLOP / exact: {0}; 1 % of bytes / exact: {1}; of {2}",
            "–",
            "nothing; give dynamic sizes with `--dim`",
        ),
        [Cell(*_WHEELS, row, 1) for row in rows],
    )


def _modes() -> Iterator[Line]:
    pinned, governed = ", 4 measured, clocks pinned", ", 3 measured, a governor moves the clocks"
    plan, meter = "measure the 4 modes of `mansard board plan`", "the same, with a power meter"
    pin = "pin the clocks or measure the mode itself"
    yield _left_out(f"time in [another mode](#modes){pinned}", ["latency"], _PINNED, plan)
    yield _left_out(f"power; energy{pinned}", ["power", "energy"], _POWERED, meter)
    yield _left_out(f"time{governed}", ["latency"], _GOVERNED, pin)
    yield _left_out(f"power; energy{governed}", ["power", "energy"], _LLM, "the same")
    rows = ("best STREAM bandwidth", "fp32, product of 2048", "fp16, the same")
    yield Line(
        (
            "[ceiling](scaling.md#against-recorded-boards) in another mode",
            "median, worst: bandwidth {0}, {1}; fp32 {2}, {3}; fp16 tensor cores {4}, {5}",
            "–",
            "measure the mode's roofs under lasting load",
        ),
        [
            Cell(_SCALING, "Against recorded boards", row, column)
            for row in rows
            for column in ("median", "worst")
        ],
    )


def _left_out(name: str, quantities: Sequence[str], boards: _Boards, advice: str) -> Line:
    """Errors on modes left out, by board, and the coverage of intervals between modes."""
    clocks = "pinned" if boards in (_PINNED, _POWERED) else "governed"
    cells = [
        Cell(_HELD, f"{title}: {quantity}", k, "Mansard")
        for _, title, k in boards
        for quantity in quantities
    ]
    covered = [Cell(*_INTERVALS, f"{each} | {clocks}", "between held") for each in quantities]
    places = [f"{{{at}}}" for at in range(len(cells) + len(covered))]
    n = len(quantities)
    errors = "<br>".join(
        f"{shown}: {'; '.join(places[n * at : n * at + n])}"
        for at, (shown, _, _) in enumerate(boards)
    )
    columns = (name, errors, "; ".join(places[len(cells) :]), advice)
    return Line(columns, [*cells, *covered])


def _networks() -> Iterator[Line]:
    many = (_HELD, "all recordings")
    yield Line(
        (
            "time of an [unmeasured network](#networks), by k others on the board",
            "k = 1: {0}<br>k = 4: {1}<br>k = 10: {2}",
            "{3}<br>{4}<br>{5}",
            "measure it; else `--calibrate` with 4 similar networks and `bench`'s operators",
        ),
        [Cell(*many, k, column) for column in ("Mansard", "held") for k in ("1", "4", "10")],
    )
    rows = ("YOLO, TensorRT, 3 Orins | 1", "13 networks, TensorRT, 6 boards | 1")
    yield Line(
        (
            "time carried from [another board](board-transfer.md), 1 anchor",
            "median / nine of ten: YOLOs {0}; 13 networks {1}",
            "{2}; {3}",
            "measure 2 to 4 anchors of the same kind",
        ),
        [
            Cell(_TRANSFER, "Accuracy on networks left out", row, column)
            for column in ("Mansard", "coverage")
            for row in rows
        ],
    )
    recordings = ("YOLO, TensorRT", "CNNs on a TX2", "10 networks, eager PyTorch")
    yield Line(
        (
            '"at best": nothing measured on the board',
            "recorded time over roof, least / median / most: "
            "TensorRT {0} / {1} / {2}; TX2 {3} / {4} / {5}; eager PyTorch {6} / {7} / {8}",
            "no interval",
            "measure one network",
        ),
        [
            Cell(_HELD, "Boards", row, column)
            for row in recordings
            for column in ("recorded / at best: least", "median", "most")
        ],
    )


def _decisions() -> Iterator[Line]:
    rows = ("planned | 4 | mansard", "random | 4 | mansard")
    columns = ("mean", "p90", "wrong")
    yield Line(
        (
            "[recommended mode](#decisions): cost above the best mode",
            "4 planned modes: {0} / {1} % (mean / nine of ten); 4 random ones: {3} / {4} %",
            "wrongly feasible: {2} %; {5} %",
            "measure the recommended mode",
        ),
        [Cell(_HELD, "By k", row, column) for row in rows for column in columns],
    )
    yield Line(
        (
            "[makespan](../results/partitions.md#summary) of a schedule, two networks, two CPUs",
            "{0} % median, {1} % worst of 20; largest load alone: {2}, {3} %",
            "–",
            "run it; a GPU with a DLA is untested",
        ),
        [
            Cell("results/partitions.md", "Summary", row, column)
            for row in ("surface", "load")
            for column in ("median error %", "largest")
        ],
    )


def others() -> list[Line]:
    """Counts, measurements and models with one figure each."""
    return [*_counted(), *_measured(), *_fitted()]


def _counted() -> Iterator[Line]:
    rows: Sequence[str] = ("right in everything", "files", "explained", "wrong")
    yield Line(
        (
            "[work](validation.md#pytorchs-own-counter), forward and training",
            "PyTorch's counter",
            "{0} of {1} files equal, {2} explained, {3} wrong",
        ),
        [Cell(*_TORCH, row, 1) for row in rows],
    )
    yield Line(
        (
            "[fused bytes](traffic.md#against-recorded-engines) of a network",
            "13 recorded TensorRT engines",
            "{0} % (median / worst)",
        ),
        [Column("understand/traffic.md", "Against recorded engines", "error")],
    )
    rows = ("ReLU, both tensors in 40 MB", "ReLU, larger", "linear | DRAM")
    yield Line(
        (
            "[bytes of one operator](../results/counters.md#single-operators-of-an-a100)",
            "DRAM counters of an A100, no cache modelled",
            "counted over estimated, median: ReLU {0}, larger than the cache {1}; linear {2}",
        ),
        [Cell("results/counters.md", "Single operators of an A100", row, "median") for row in rows],
    )


def _measured() -> Iterator[Line]:
    yield Line(
        (
            "[CPU peak or bandwidth](measuring.md#against-the-best-c)",
            "the fastest C for the same work",
            "ratio of medians, one thread: L1 {0}, DRAM {1}",
        ),
        [Column(*_BEST_C, level, statistic="least to largest") for level in ("L1", "DRAM")],
    )
    rows: Sequence[str] = ("ramps of 0.25 s", "steps within 1 ms every 0.37 s")
    yield Line(
        (
            "[energy of a window](metering.md#the-sampler)",
            "a trace of known energy",
            "ramps {0}; a step every 0.37 s {1}",
        ),
        [Cell("understand/metering.md", "The sampler", row, 1) for row in rows],
    )
    rows = ("LLM decode", "LLM prefill", "DeepONet, Jetson Orin Nano Super")
    yield Line(
        (
            "[time, measured again](prediction.md#measured-networks)",
            "recorded runs of one network",
            "95 % within: LLM decode {0}, prefill {1}, DeepONet {2}",
        ),
        [Cell(*_AGAIN, row, "95 % within") for row in rows],
    )
    alone = ("results/each_layer.md", "Layers that are run alone", "difference")
    yield Line(
        (
            "[sum of layers run alone](../results/each_layer.md)",
            "the whole network, ONNX Runtime on a CPU",
            "layers {0} %, stages {1} % (median / worst)",
        ),
        (Column(*alone, ends="layers"), Column(*alone, ends="stages")),
    )


def _fitted() -> Iterator[Line]:
    fit = ("understand/energy.md", "Why idle points", "the same + 3 idle points")
    yield Line(
        (
            "[joules per FLOP, per byte; watts at rest](energy.md#why-idle-points)",
            "a simulated board of known costs",
            "95th percentile {0} % with 1 % of meter noise, {1} % with 3 %",
        ),
        (Cell(*fit, "1 % noise, equal windows"), Cell(*fit, "3 % noise")),
    )
    page = "understand/contention.md"
    title = next(table.title for table in tables(page) if "parameters" in table.columns)
    yield Line(
        (
            "[speed under contention](contention.md)",
            "a recorded matrix of a Xavier AGX",
            "fit {0} points of 100 in the mean, rows left out {1}",
        ),
        [
            Cell(page, title, "refitted", column)
            for column in ("mean error, points", "of left-out rows")
        ],
    )


def _shown(quantity: str) -> str:
    return quantity.replace("latency", "time")


def _with_best_rule(table: Table, k: str) -> tuple[str, str, tuple[str, ...]]:
    """Mansard's cell, the plain rule of the least median with its name, and the cells after."""
    cells = cells_of(table, k)
    last = next(at for at, name in enumerate(table.columns) if name.endswith("held"))
    rules = range(2, last)
    best = min(rules, key=lambda at: float(cells[at].partition(" ")[0]))
    return cells[1], f"{cells[best]} ({table.columns[best]})", cells[last:]


def _mode_lines() -> Iterator[str]:
    """A row for each recording and quantity: with 4 measured modes, or 3 where it has no more."""
    for table in tables(_HELD):
        recording, _, quantity = table.title.rpartition(": ")
        if quantity not in {"latency", "power", "energy"}:
            continue
        k = max(row[0] for row in table.rows if row[0] in "1234")
        if k < "3":
            continue
        mansard, rule, held = _with_best_rule(table, k)
        cells = (f"{recording}, {_shown(quantity)}", k, mansard, rule, *held)
        yield f"| {' | '.join(cells)} |"


def _network_lines() -> Iterator[str]:
    """A row for each recording with 4 measured networks, Pagoda's with 3; all with more."""
    for table in tables(_HELD):
        if "one factor" not in table.columns:
            continue
        counts = [row[0] for row in table.rows]
        usual = "4" if "4" in counts else counts[-1]
        for k in ("1", "4", "10") if table.title == "all recordings" else (usual,):
            mansard, rule, held = _with_best_rule(table, k)
            yield f"| {' | '.join((table.title, k, mansard, rule, *held))} |"


def _decision_lines() -> Iterator[str]:
    """Mansard and the line after few modes, and the best measured mode after four."""
    columns = ("n", "wrong", "missed", "mean", "p90", "worst")
    for modes in ("planned | 2", "planned | 3", "planned | 4", "random | 4"):
        for rule in ("mansard", "line", *(["measured"] if modes.endswith("4") else [])):
            cells = [Cell(_HELD, "By k", f"{modes} | {rule}", column) for column in columns]
            yield f"| {modes} | {rule} | {' | '.join(cell.text() for cell in cells)} |"


_Block: TypeAlias = tuple[Sequence[str], Callable[[], Sequence[str]]]
_BLOCKS: dict[str, _Block] = {
    "glance": (
        (
            "quantity",
            "typical error on unseen data",
            "interval coverage",
            "what to do when it matters",
        ),
        lambda: [line.text() for line in glance()],
    ),
    "modes": (
        ("recording", "k", "Mansard", "best plain rule", "intervals between", "bounds beyond"),
        lambda: list(_mode_lines()),
    ),
    "networks": (
        ("recording", "k", "Mansard", "best plain rule", "intervals"),
        lambda: list(_network_lines()),
    ),
    "decisions": (
        ("modes", "k", "rule", "n", "wrong", "missed", "mean", "nine of ten", "worst"),
        lambda: list(_decision_lines()),
    ),
    "others": (
        ("number", "compared with", "error"),
        lambda: [line.text() for line in others()],
    ),
}


def with_errors(page: str) -> str:
    """The page's text with the tables as they are now."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{_table(found[2])}\n\n{found[3]}", page)


def _table(name: str) -> str:
    head, lines = _BLOCKS[name]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines()])


if __name__ == "__main__":
    PAGE.write_text(with_errors(PAGE.read_text("utf-8")), "utf-8")
