"""The tables of docs/understand/trust.md, from the tables that the benchmarks print.

    python -m tools.site.errors              write them again

Each line names cells of tables elsewhere in the documents, so that no figure is typed twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tools.site.page_tables import DOCS, Cell, Column, Table, cells_of, number, tables

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
_EACH = (_HELD, "Intervals of each recording")
_INTERVALS = (_HELD, "Intervals, two measured modes and more")
_ERRORS = ("median", "nine of ten", "worst")
_ENDS = ("inside", "n", "width")
_INSIDE = ("between: inside", "between: width")
_POWERED = ("TX2, VGG19 with power", "GTX 1080 Ti, 30 kernels")
_PINNED = ("TX2, 3 networks", *_POWERED)
_LLM = ("Orin Nano Super, 4 LLMs",)
_GOVERNED = (*_LLM, "AGX Orin 64GB, STREAM and BLAS", "AGX Orin 64GB, eager PyTorch")


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
    """What a user reads first: errors of times, powers and energies, by recording."""
    return [*_modes(), *_networks()]


def bounds() -> list[Line]:
    """Kinds of numbers with other measures of error."""
    return [*_counts(), *_intervals(), *_ceilings(), *_at_best(), *_decisions()]


def _counts() -> Iterator[Line]:
    rows = (
        "FLOP of multiply-adds within 0.1 % / exact",
        "bytes within 1 % / exact",
        "scored with these sizes given and nothing else",
    )
    exact = (Cell(*_WHEELS, row, 1) for row in rows)
    flop, n_bytes, total = (cell.text().partition(" / ")[0] for cell in exact)
    yield Line(
        (
            "[FLOP and bytes](validation.md) of a network",
            f"FLOP within 0.1 % in {flop} of {total} runs, bytes within 1 % in {n_bytes}",
            "give dynamic sizes with `--dim`",
        ),
        (),
    )


def _modes() -> Iterator[Line]:
    pinned, governed = "4 measured, clocks pinned", "3 measured, governor"
    plan, meter = "measure the 4 modes of `mansard board plan`", "the same, with a power meter"
    pin = "pin the clocks or measure the mode itself"
    mode = "in [another mode](#modes)"
    yield from _left_out(f"time {mode}, {pinned}", "latency", _PINNED, plan)
    yield from _left_out(f"power {mode}, {pinned}", "power", _POWERED, meter)
    yield from _left_out(f"energy {mode}, {pinned}", "energy", _POWERED, meter)
    yield from _left_out(f"time {mode}, {governed}", "latency", _GOVERNED, pin)
    yield from _left_out(f"power {mode}, {governed}", "power", _LLM, pin)
    yield from _left_out(f"energy {mode}, {governed}", "energy", _LLM, pin)


def _ceilings() -> Iterator[Line]:
    rows = ("best STREAM bandwidth", "fp32, product of 2048", "fp16, the same")
    yield Line(
        (
            "[ceiling](scaling.md#against-recorded-boards) in another mode, error",
            "bandwidth: median {0}, worst {1}; fp32: median {2}, worst {3}; "
            "fp16 tensor cores: median {4}, worst {5}",
            "measure the mode's roofs under lasting load",
        ),
        [
            Cell(_SCALING, "Against recorded boards", row, column)
            for row in rows
            for column in ("median", "worst")
        ],
    )


def _left_out(name: str, quantity: str, recordings: Sequence[str], advice: str) -> Iterator[Line]:
    """Errors on modes left out, by recording, and the coverage of intervals between modes."""
    k = "3" if recordings in (_GOVERNED, _LLM) else "4"
    for recording in recordings:
        title = f"{recording}: {quantity}"
        errors = [Cell(_HELD, title, f"{k} | Mansard", column) for column in _ERRORS]
        covered = [Cell(*_EACH, f"{title} | {k}", column) for column in _INSIDE]
        yield Line((name, recording, "{0}", "{1}", "{2}", "{3}", "{4}", advice), errors + covered)
        name = advice = ""


def _networks() -> Iterator[Line]:
    advice = "measure it; else `--calibrate` with 4 similar networks and `bench`'s operators"
    for k in ("1", "4", "10"):
        name = f"time of an [unmeasured network](#networks), {k} measured"
        advice = advice if k == "1" else ""
        cells = [
            Cell(_HELD, "all recordings", f"{k} | Mansard", column)
            for column in (*_ERRORS, "inside")
        ]
        columns = (name, "all recordings", "{0}", "{1}", "{2}", "{3}", "–", advice)
        yield Line(columns, cells)
    name = "time from [another board](board-transfer.md), 1 anchor"
    advice = "measure 2 to 4 anchors of the same kind"
    for row in ("YOLO, TensorRT, 3 Orins", "13 networks, TensorRT, 6 boards"):
        columns = (name, row, "{0}", "{1}", "–", "{2}", "{3}", advice)
        cells = [
            Cell(_TRANSFER, "Accuracy on networks left out", f"{row} | 1", column)
            for column in ("Mansard: median", "Mansard: nine of ten", "coverage", "width")
        ]
        yield Line(columns, cells)
        name = advice = ""


def _intervals() -> Iterator[Line]:
    quantities = ("latency", "power", "energy")
    yield Line(
        (
            "95 % intervals in other modes, two measured modes and more: share inside",
            "clocks pinned: time {0}, power {1}, energy {2}; governor: {3}, {4}, {5}",
            "",
        ),
        [
            Cell(*_INTERVALS, f"{quantity} | {clocks}", "between: inside")
            for clocks in ("pinned", "governed")
            for quantity in quantities
        ],
    )


def _at_best() -> Iterator[Line]:
    recordings = ("TensorRT, 27 networks", "CNNs on a TX2", "10 networks, eager PyTorch")
    yield Line(
        (
            '"at best": recorded time over the roof, nothing measured on the board',
            "TensorRT: {0} to {2}, median {1}; TX2: {3} to {5}, median {4}; "
            "eager PyTorch: {6} to {8}, median {7}",
            "measure one network",
        ),
        [
            Cell(_HELD, "Boards", row, column)
            for row in recordings
            for column in ("recorded / at best: least", "median", "most")
        ],
    )


def _decisions() -> Iterator[Line]:
    for modes in ("planned", "random"):
        yield Line(
            (
                f"[recommended mode](#decisions) after 4 {modes} modes, cost above the best mode",
                "mean {0} %, nine of ten {1} %; {2} % of the answers are wrongly feasible",
                "measure the recommended mode",
            ),
            [
                Cell(_HELD, "By k", f"{modes} | 4 | mansard", column)
                for column in ("mean", "p90", "wrong")
            ],
        )
    yield Line(
        (
            "[makespan](../results/partitions.md#summary) of a schedule, two networks, two CPUs",
            "median {0} %, worst of 20 {1} %; largest load alone: median {2} %, worst {3} %",
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
            "{0}",
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
            "layers: {0}; stages: {1}",
        ),
        (Column(*alone, ends="layers"), Column(*alone, ends="stages")),
    )


def _fitted() -> Iterator[Line]:
    fit = ("understand/energy.md", "Why idle points")
    yield Line(
        (
            "[joules per FLOP, per byte; watts at rest](energy.md#why-idle-points)",
            "a simulated board of known costs",
            "95th percentile {0}, {1}, {2} % with 1 % of meter noise; {3}, {4}, {5} % with 3 %",
        ),
        [
            Cell(*fit, f"the same + 3 idle points | equal length | {noise}", column)
            for noise in ("1 %", "3 %")
            for column in (3, 4, 5)
        ],
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


def _rules(table: Table, k: str) -> Iterator[str]:
    """Cells: Mansard's errors, then the plain rule of the least median and its errors."""
    _, *plain = rows = [row[1:] for row in table.rows if row[0] == k]
    yield from rows[0][1:4]
    yield from min(plain, key=lambda row: number(row[1]))[:4]


def _most_measured(table: Table) -> str:
    """4 measured modes or networks, or the most below that."""
    return max(row[0] for row in table.rows if row[0] in "1234")


def _mode_tables() -> Iterator[tuple[str, str, Table]]:
    """Recordings with 4 measured modes, or 3 where they have no more: name and k."""
    for table in tables(_HELD):
        recording, _, quantity = table.title.rpartition(": ")
        if quantity in {"latency", "power", "energy"} and (k := _most_measured(table)) > "2":
            yield f"{recording}, {quantity.replace('latency', 'time')}", k, table


def _mode_lines() -> Iterator[str]:
    """A row for each recording and quantity: Mansard and the best plain rule."""
    for name, k, table in _mode_tables():
        yield f"| {' | '.join((name, k, *_rules(table, k)))} |"


def _interval_lines() -> Iterator[str]:
    """A row for each recording and quantity: the intervals between and beyond measured modes."""
    intervals = next(each for each in tables(_HELD) if each.title == _EACH[1])
    for name, k, table in _mode_tables():
        cells = cells_of(intervals, f"{table.title} | {k}")
        yield f"| {' | '.join((name, *cells[1:]))} |"


def _network_lines() -> Iterator[str]:
    """A row for each recording with 4 measured networks, Pagoda's with 3; all with more."""
    for table in tables(_HELD):
        if not any(row[1] == "one factor" for row in table.rows):
            continue
        is_all = table.title == "all recordings"
        for k in ("1", "4", "10") if is_all else (_most_measured(table),):
            cells = (table.title, k, *_rules(table, k), *cells_of(table, f"{k} | Mansard")[5:])
            yield f"| {' | '.join(cells)} |"


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
            "recording",
            *_ERRORS,
            "inside the interval",
            "width",
            "to be more certain",
        ),
        lambda: [line.text() for line in glance()],
    ),
    "bounds": (
        ("number", "on recorded data", "to be more certain"),
        lambda: [line.text() for line in bounds()],
    ),
    "modes": (
        ("recording", "k", *_ERRORS, "best plain rule", *_ERRORS),
        lambda: list(_mode_lines()),
    ),
    "intervals": (
        (
            "recording",
            "k",
            *(f"{where}: {what}" for where in ("between", "beyond") for what in _ENDS),
        ),
        lambda: list(_interval_lines()),
    ),
    "networks": (
        ("recording", "k", *_ERRORS, "best plain rule", *_ERRORS, "inside the interval", "n"),
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
