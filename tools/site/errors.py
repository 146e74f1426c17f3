"""One table of every error that was measured, from the tables that the benchmarks print.

    python -m tools.site.errors              write it again into docs/understand/trust.md

Each line names cells of tables elsewhere in the documents, so that no figure is typed twice. A
table, row or column that is not there any more is a KeyError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "understand/trust.md"
START, END = "<!-- made by `python -m tools.site.errors` -->", "<!-- end of what is made -->"
_TITLE = re.compile(r"^#+ (.+)$|^\*\*([^*]+)\*\*$")
_NUMBER = re.compile(r"[−+-]?[0-9][0-9,.]*")


@dataclass(frozen=True)
class Table:
    """A table of a page, and the heading or bold line above it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Cell:
    """One cell: a page, the title above its table, the row's first cells, the column."""

    page: str
    title: str
    row: str
    column: str | int

    def text(self) -> str:
        """What it says, without bold; raises KeyError."""
        return _row(self)[_index(self)]


@dataclass(frozen=True)
class Column:
    """The numbers of a column without their signs, of the rows whose second cell ends so."""

    page: str
    title: str
    column: str
    ends: str = ""
    statistic: str = "median / worst"

    def text(self) -> str:
        """Their median and largest; or their least and largest. Raises KeyError."""
        table = _table(self.page, self.title, self.column)
        at = table.columns.index(self.column)
        cells = [row[at] for row in table.rows if row[1].endswith(self.ends)]
        found = [abs(_number(cell)) for cell in cells if cell]
        if self.statistic == "least to largest":
            return f"{min(found):.3f} to {max(found):.3f}"
        return f"{median(found):.3g} / {max(found):.3g}"


@dataclass(frozen=True)
class Error:
    """A kind of number, what it was held against, and how far off it was."""

    number: str
    against: str
    off: str  # with {0}, {1} … for the cells
    cells: Sequence[Cell | Column]
    link: str  # from trust.md

    def line(self) -> str:
        """Its row of the table."""
        off = self.off.format(*(each.text() for each in self.cells))
        return f"| {self.number} | {self.against} | {off} | [{_name(self.link)}]({self.link}) |"


_TRUST, _SCALING = "understand/trust.md", "understand/scaling.md"
_WHEELS = ("understand/validation.md", "Networks inside wheels")
_TORCH = ("understand/validation.md", "PyTorch's own counter")
_BEST_C = ("understand/measuring.md", "Against the best C")
_AGAIN = ("understand/prediction.md", "Measured networks")


def _left_out(boards: _Boards, quantity: str) -> tuple[str, list[Cell]]:
    """Errors on modes left out: a board and how many modes were measured, for each."""
    words = [
        f"{board.replace(', ', ' (') + ')' if ', ' in board else board}: {{{at}}}"
        for at, (board, _) in enumerate(boards)
    ]
    cells = [Cell(_TRUST, f"{board}: {quantity}", k, "Mansard") for board, k in boards]
    return "<br>".join(words), cells


_Boards = Sequence[tuple[str, str]]
_POWERED: _Boards = (("TX2, VGG19 with power", "4"), ("GTX 1080 Ti, 30 kernels", "4"))
_PINNED: _Boards = (("TX2, 3 networks", "4"), *_POWERED)
_GOVERNED: _Boards = (
    ("Orin Nano Super, 4 LLMs", "3"),
    ("AGX Orin 64GB, eager PyTorch", "3"),
    ("AGX Orin 64GB, STREAM and BLAS", "3"),
    ("Orin NX 16GB, STREAM and BLAS", "3"),
    ("Orin Nano 8GB, STREAM and BLAS", "3"),
)
_LLM: _Boards = (("Orin Nano Super, 4 LLMs", "3"),)


def errors() -> list[Error]:
    """Every error, from counts over measurements to predictions and decisions."""
    return [*_counted(), *_measured(), *_modelled(), *_decided()]


def _counted() -> Iterator[Error]:
    work = Cell(*_WHEELS, "FLOP of multiply-adds within 0.1 % / exact", 1)
    moved = Cell(*_WHEELS, "bytes within 1 % / exact", 1)
    runs = Cell(*_WHEELS, "scored with these sizes given and nothing else", 1)
    validated = "validation.md#networks-inside-wheels"
    said = "runs within 0.1 % / exact: {0}, of {1}"
    yield Error("work of a network", "kernels of ONNX Runtime", said, (work, runs), validated)
    said = "runs within 1 % / exact: {0}, of {1}"
    against = "tensors of ONNX Runtime's kernels"
    yield Error("algorithmic bytes of a network", against, said, (moved, runs), validated)
    rows: Sequence[str] = ("right in everything", "files", "explained", "wrong")
    yield Error(
        "work, forward and training",
        "PyTorch's counter",
        "{0} of {1} files equal, {2} explained, {3} wrong",
        [Cell(*_TORCH, row, 1) for row in rows],
        "validation.md#pytorchs-own-counter",
    )
    engines = Column("understand/traffic.md", "Against recorded engines", "error")
    yield Error(
        "fused bytes of a network",
        "13 recorded TensorRT engines",
        "{0} % (median / worst)",
        (engines,),
        "traffic.md#against-recorded-engines",
    )
    rows = ("ReLU, both tensors in 40 MB", "ReLU, larger", "linear | DRAM")
    counted = ("results/counters.md", "Single operators of an A100")
    yield Error(
        "bytes of one operator",
        "an A100's counters of DRAM, without a model of its cache",
        "counted over estimated, median: ReLU {0}, larger than the cache {1}; linear {2}",
        [Cell(*counted, row, "median") for row in rows],
        "../results/counters.md#single-operators-of-an-a100",
    )


def _measured() -> Iterator[Error]:
    levels = [Column(*_BEST_C, level, statistic="least to largest") for level in ("L1", "DRAM")]
    yield Error(
        "a peak or a bandwidth of a CPU",
        "the fastest C for the same work",
        "ratio of medians, one thread: L1 {0}, DRAM {1}",
        levels,
        "measuring.md#against-the-best-c",
    )
    yield Error(
        "energy of a window: reading and adding up",
        "a trace of known energy",
        "ramps {0}; a step every 0.37 s {1}",
        [
            Cell("understand/metering.md", "The sampler", row, 1)
            for row in ("ramps of 0.25 s", "steps within 1 ms every 0.37 s")
        ],
        "metering.md#the-sampler",
    )
    yield Error(
        "time of a network, measured again",
        "recorded runs of one network",
        "95 % within: LLM decode {0}, prefill {1}, DeepONet {2}",
        [
            Cell(*_AGAIN, row, "95 % within")
            for row in ("LLM decode", "LLM prefill", "DeepONet, Jetson Orin Nano Super")
        ],
        "prediction.md#measured-networks",
    )
    alone = ("results/each_layer.md", "Layers that are run alone", "difference")
    yield Error(
        "sum of layers that are run alone",
        "the whole network, ONNX Runtime on a CPU",
        "layers {0} %, stages {1} % (median / worst)",
        (Column(*alone, ends="layers"), Column(*alone, ends="stages")),
        "../results/each_layer.md",
    )


def _modelled() -> Iterator[Error]:
    fit = ("understand/energy.md", "Why idle points", "the same + 3 idle points")
    yield Error(
        "joules of a FLOP, of a byte, of a second at rest",
        "a simulated board whose costs are known",
        "95th percentile {0} % with 1 % of noise in the meter, {1} % with 3 %",
        (Cell(*fit, "1 % noise, equal windows"), Cell(*fit, "3 % noise")),
        "energy.md#why-idle-points",
    )
    recorded = (_SCALING, "Against recorded boards")
    rows: Sequence[str] = ("best STREAM bandwidth", "fp32, product of 2048", "fp16, the same")
    cells = [Cell(*recorded, row, column) for row in rows for column in ("median", "worst")]
    yield Error(
        "a ceiling in a mode that was not measured",
        "three Orins, each mode from the others",
        "median, worst: bandwidth {0}, {1}; fp32 {2}, {3}; fp16 tensor cores {4}, {5}",
        cells,
        "scaling.md#against-recorded-boards",
    )
    pinned = (("latency", _PINNED), ("power", _POWERED), ("energy", _POWERED))
    governed = (("latency", _GOVERNED), ("power", _LLM), ("energy", _LLM))
    for quantity, boards in pinned:
        off, cells = _left_out(boards, quantity)
        number = f"{quantity.replace('latency', 'time')} of a network in other modes, 4 measured"
        yield Error(number, "modes left out, clocks pinned", off, cells, "#modes")
    for quantity, boards in governed:
        off, cells = _left_out(boards, quantity)
        number = f"{quantity.replace('latency', 'time')} in other modes, 3 measured"
        yield Error(number, "modes left out, a governor moves the clocks", off, cells, "#modes")
    yield Error(
        "time of a network that was not measured",
        "networks left out, by k others on the device",
        "k = 1: {0}; 4: {1}; 10: {2}",
        [Cell(_TRUST, "all recordings", k, "Mansard") for k in ("1", "4", "10")],
        "#networks",
    )
    rows = ("YOLO, TensorRT", "CNNs on a TX2", "10 networks, eager PyTorch")
    columns: Sequence[str] = ("recorded / at best: least", "median", "most")
    yield Error(
        '"at best": no network of the device measured',
        "recorded times, as multiples (least / median / most)",
        "TensorRT {0} / {1} / {2}; CNNs on a TX2 {3} / {4} / {5}; eager PyTorch {6} / {7} / {8}",
        [Cell(_TRUST, "Boards", row, column) for row in rows for column in columns],
        "#boards",
    )
    table = (_TRUST, "Intervals, two measured modes and more")
    rows = ("latency | pinned", "latency | governed", "energy | pinned", "power | pinned")
    yield Error(
        "95 % intervals between measured modes",
        "how many held",
        "time {0}, governed {1}; energy {2}; power {3}",
        [Cell(*table, row, "between held") for row in rows],
        "#modes",
    )
    fitted = next(t.title for t in tables("understand/contention.md") if "parameters" in t.columns)
    columns = ("mean error, points", "of left-out rows")
    yield Error(
        "speed that is left beside others (contention)",
        "a recorded matrix of a Xavier AGX",
        "fit {0} points of 100 in the mean, on rows left out {1}",
        [Cell("understand/contention.md", fitted, "refitted", column) for column in columns],
        "contention.md",
    )


def _decided() -> Iterator[Error]:
    rows: Sequence[str] = ("planned | 4 | mansard", "random | 4 | mansard")
    columns: Sequence[str] = ("mean", "p90", "wrong", "missed")
    yield Error(
        "what the recommended mode costs above the best one that keeps the limit",
        "modes left out, five boards (mean / nine of ten)",
        "4 planned modes: {0} / {1} %, {2} % wrong, {3} % missed; 4 random ones: {4} / {5} %, "
        "{6} %, {7} %",
        [Cell(_TRUST, "By k", row, column) for row in rows for column in columns],
        "#decisions",
    )
    made = ("results/partitions.md", "Summary")
    yield Error(
        "makespan of a schedule",
        "20 mappings of two networks on two CPUs, run",
        "{0} % median, {1} % worst; the largest load alone {2} and {3} %",
        [
            Cell(*made, row, column)
            for row in ("surface", "load")
            for column in ("median error %", "largest")
        ],
        "../results/partitions.md#summary",
    )


@cache
def tables(page: str) -> tuple[Table, ...]:
    """All tables of a page, in order."""
    found: list[Table] = []
    title, lines = "", []
    for line in [*(DOCS / page).read_text("utf-8").splitlines(), ""]:
        if line.startswith("|"):
            lines.append(_cells(line))
            continue
        if len(lines) > 1:
            found.append(Table(title, lines[0], tuple(lines[2:])))
        lines = []
        if heading := _TITLE.match(line):
            title = heading[1] or heading[2]
    return tuple(found)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|"))


def _table(page: str, title: str, column: str | int, row: str = "") -> Table:
    for table in tables(page):
        has_column = isinstance(column, int) or column in table.columns
        if table.title.startswith(title) and has_column and _rows(table, row):
            return table
    raise KeyError(f"docs/{page}: no table under {title!r} with {column!r} and {row!r}")


def _rows(table: Table, row: str) -> list[tuple[str, ...]]:
    """Rows that begin so, by whole cells; else those whose text begins so."""
    joined = [(" | ".join(cells), cells) for cells in table.rows]
    whole = [cells for text, cells in joined if f"{text} |".startswith(f"{row} |")]
    return whole or [cells for text, cells in joined if text.startswith(row)]


def _row(cell: Cell) -> tuple[str, ...]:
    return _rows(_table(cell.page, cell.title, cell.column, cell.row), cell.row)[0]


def _index(cell: Cell) -> int:
    if isinstance(cell.column, int):
        return cell.column
    return _table(cell.page, cell.title, cell.column, cell.row).columns.index(cell.column)


def _number(cell: str) -> float:
    found = _NUMBER.search(cell)
    if found is None:
        raise KeyError(f"{cell!r} has no number")
    return float(found[0].replace("−", "-").replace(",", "").rstrip("."))


def _name(link: str) -> str:
    path, _, anchor = link.partition("#")
    return Path(path).stem.replace("_", " ") if path else anchor


def table_of_errors() -> str:
    """The table in Markdown."""
    head = ["| number | held against | how far off | from |", "|---|---|---|---|"]
    return "\n".join([*head, *(each.line() for each in errors())])


def with_errors(page: str) -> str:
    """The page's text with the table as it is now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table_of_errors()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_errors(PAGE.read_text("utf-8")), "utf-8")
