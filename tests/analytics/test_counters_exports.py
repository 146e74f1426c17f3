"""One profile in the shapes in which people export it: the same FLOP and bytes come out of each."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.importing import ExportOrigin, counters_in
from mansard.core.errors import InputError
from mansard.core.records import KernelCounters

GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
COPY = "void vectorized_elementwise_kernel<4>(int)"
TIME = "gpu__time_duration.sum"
SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
TENSOR = "sm__inst_executed_pipe_tensor.sum"
METRICS = (
    TIME,
    *(SASS.format(op) for op in ("ffma", "fmul", "fadd")),
    TENSOR,
    "dram__bytes.sum",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
)
# By kernel: nanoseconds; ffma, fmul, fadd; instructions of the tensor pipe; bytes of DRAM, L2, L1.
VALUES = {
    GEMM: (542_000, 8_388_608, 0, 4_194_304, 1_048_576, 33_500_000, 70_000_000, 80_000_000),
    COPY: (12_000, 1000, 20, 300, 0, 1_050_000, 2_000_000, 3_000_000),
}
BASE = ("ns", "inst", "inst", "inst", "inst", "byte", "byte", "byte")
SCALED = ("usecond", "inst", "inst", "inst", "inst", "Mbyte", "Mbyte", "Mbyte")
PLACED = ("128, 1, 1", "2, 256, 1")

# HMMA.16816 is 2·16·8·16 = 4096 FLOP: 2·8,388,608 + 4,194,304 + 4096·1,048,576 = 4,315,938,816, and
# 2048 for each by Pagoda's rule: 20,971,520 + 2,147,483,648 = 2,168,455,168.
# The copy is 2·1000 + 20 + 300 = 2320 by both.
WORK = {GEMM: (4_315_938_816, 2_168_455_168, 33_500_000), COPY: (2320, 2320, 1_050_000)}


def written(rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n", delimiter=delimiter).writerows(
        rows
    )
    return text.getvalue()


def scaled(values: Sequence[int], form: Callable[[float, int], str]) -> list[str]:
    """Cells in ``SCALED``; ``form`` writes a number with so many decimals."""
    return [
        form(value / {"usecond": 1e3, "Mbyte": 1e6}.get(unit, 1), 0 if unit == "inst" else 2)
        for value, unit in zip(values, SCALED, strict=True)
    ]


def english(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}"


def german(value: float, decimals: int) -> str:
    return english(value, decimals).translate(str.maketrans(",.", ".,"))


def french(value: float, decimals: int) -> str:
    return english(value, decimals).replace(",", "\u2009").replace(".", ",")


def gui(form: Callable[[float, int], str], delimiter: str = ",") -> str:
    """What the GUI's raw page exports, 14 columns: Pagoda's ``ert_method.py`` reads such a file."""
    head = [
        "ID",
        "Function Name",
        "Demangled Name",
        "Device Name",
        "Block Size [block]",
        "Grid Size",
    ]
    columns = [f"{name} [{unit}]" for name, unit in zip(METRICS, SCALED, strict=True)]
    rows = [
        [number, kernel.split("<")[0].split()[-1], kernel, "A100", *PLACED, *scaled(values, form)]
        for number, (kernel, values) in enumerate(VALUES.items())
    ]
    return written([[*head, *columns], *rows], delimiter)


def command_line() -> str:
    """``ncu --csv --page raw``: the units stand in the second row."""
    head = ["ID", "Process ID", "Process Name", "Kernel Name", "Block Size", "Grid Size", "CC"]
    rows = [
        [number, 7 + number, "python", kernel, *(f"({size})" for size in PLACED), "8.0"]
        + [f"{value:,}" for value in values]
        for number, (kernel, values) in enumerate(VALUES.items())
    ]
    return written([[*head, *METRICS], [*[""] * len(head), *BASE], *rows])


def details(name_of: Callable[[str], str] = str) -> str:
    """``ncu --csv --metrics …``: a metric a row, and fewer cells than columns."""
    head = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Section Name"]
    head += ["Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type"]
    rows = [
        [number, 7, kernel, *PLACED, "Command line profiler metrics", name_of(name), unit, cell]
        for number, (kernel, values) in enumerate(VALUES.items())
        for name, unit, cell in zip(METRICS, BASE, map(str, values), strict=True)
    ]
    return written([head, *rows])


def summary(*, by_kernel: bool) -> str:
    head = [
        "Process ID",
        *(["Kernel Name", "Block Size", "Grid Size"] if by_kernel else []),
        "Device",
    ]
    head += ["Invocations", "Section Name", "Metric Name", "Metric Unit"]
    rows = [
        [7, *([kernel, *PLACED] if by_kernel else []), 0, 3, "S", name, unit, value, value, value]
        for kernel, values in VALUES.items()
        for name, unit, value in zip(METRICS, BASE, values, strict=True)
        if by_kernel or kernel == GEMM
    ]
    return written([[*head, "Minimum", "Maximum", "Average"], *rows])


def sections(*, has_head: bool) -> str:
    lines = ["==PROF== Connected to process 7", "[7] python@host"]
    for kernel, values in VALUES.items():
        lines += [f"  {kernel} (2, 256, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.0"]
        lines += ["    Section: Command line profiler metrics", f"    {'-' * 60}"]
        lines += ["    Metric Name     Metric Unit Metric Value"] if has_head else []
        pairs = zip(METRICS, SCALED, scaled(values, english), strict=True)
        lines += [f"    {name:<60} {unit:>10} {cell:>14}" for name, unit, cell in pairs]
    return "\n".join((*lines, ""))


def of_pandas() -> str:
    """A raw page that a script saved again: an index, no units row, numbers with fractions."""
    rows = [
        f'{number},{number},"{kernel}",' + ",".join(str(float(value)) for value in values)
        for number, (kernel, values) in enumerate(VALUES.items())
    ]
    return "\n".join([",ID,Kernel Name," + ",".join(METRICS), *rows, ""])


def rows_of(text: str | bytes, precision: str | None = "fp32") -> tuple[KernelCounters, ...]:
    data = text.encode() if isinstance(text, str) else text
    origin = ExportOrigin(device="A100", precision=precision, compute_capability=80)
    return counters_in(ToolFile("export.csv", data), origin).rows


EXPORTS: dict[str, str | bytes] = {
    "the GUI": gui(english),
    "the GUI with a byte order mark": gui(english).encode("utf-8-sig"),
    "the GUI in German": gui(german, ";"),
    "the GUI in French, by tabs": gui(french, "\t").encode("utf-16"),
    "the GUI with a baseline": gui(lambda value, n: f"{english(value, n)} (+0.00%)"),
    "the raw page": command_line(),
    "the raw page after lines of the program": "loss 0.5\n==PROF== Connected\n" + command_line(),
    "the raw page without quotes, spaced": command_line().replace('","', '", "'),
    "the details page": details(),
    "the details page with labels and names": details(lambda name: f"Some Label ({name})"),
    "a summary by kernel": summary(by_kernel=True),
    "text": sections(has_head=True),
    "text before 2022": sections(has_head=False),
    "a table that pandas wrote": of_pandas(),
}


@pytest.mark.parametrize("shape", EXPORTS)
def test_flop_and_bytes_are_those_by_hand(shape: str) -> None:
    rows = rows_of(EXPORTS[shape])
    assert [row.kernel for row in rows] == list(WORK)
    for row in rows:
        work, by_pagoda, traffic = WORK[row.kernel]
        assert row.work_flop == pytest.approx(work, rel=1e-12)
        assert row.pagoda_flop == pytest.approx(by_pagoda, rel=1e-12)
        assert row.traffic[-1].traffic_bytes == pytest.approx(traffic, rel=1e-12)
        assert {count.error for count in row.work} <= {0}
        assert {level.error for level in row.traffic} == {0}
    assert [row.time_s for row in rows] == pytest.approx([542e-6, 12e-6])


def test_a_summary_by_device_is_one_row() -> None:
    (row,) = rows_of(summary(by_kernel=False))
    assert (row.kernel, row.n_launches) == ("all kernels", 3)
    # Pagoda's rule needs no kernel: 20,971,520 + 2048·1,048,576. Ours does.
    assert row.pagoda_flop == 2_168_455_168
    assert "cannot be told" in row.unknown["work_flop"]
    assert row.traffic[-1].traffic_bytes == 33_500_000


def test_units_in_the_second_row_of_a_table_without_names() -> None:
    head = ",".join(("N", *METRICS))
    units = ",".join(("", *SCALED))
    cells = ",".join(["8", *(cell.replace(",", "") for cell in scaled(VALUES[COPY], english))])
    (row,) = rows_of(f"{head}\n{units}\n{cells}\n")
    assert (row.kernel, row.work_flop) == ("N=8", 2320)
    assert row.traffic[-1].traffic_bytes == 1_050_000
    assert row.time_s == pytest.approx(12e-6)


def test_whole_numbers_tell_the_language() -> None:
    # "15.136" ns of a sum of nanoseconds has no fraction: the point stands between thousands.
    text = f'"ID","Kernel Name","{TIME}"\n"","","ns"\n"0","k","15.136"\n'
    assert rows_of(text)[0].time_s == pytest.approx(15.136e-6)
    scaled_unit = text.replace('"ns"', '"us"')
    assert rows_of(scaled_unit)[0].time_s == pytest.approx(15.136e-6)
    assert rows_of(scaled_unit.replace(",", ";"))[0].time_s == pytest.approx(15136e-6)


def test_the_metric_counts_where_its_label_is_there_too() -> None:
    text = f"Function Name,{TIME} [us],Duration [ms],Duration [ms] \nk,15.50,0.02,0.02\n"
    with pytest.raises(InputError, match="more than once"):
        rows_of(text)
    text = f"Function Name,Duration [ms],{TIME} [us]\nk,0.02,15.50\n"
    assert rows_of(text)[0].time_s == pytest.approx(15.5e-6)


def test_several_processes_and_devices_are_noted() -> None:
    origin = ExportOrigin(device="A100")
    notes = counters_in(ToolFile("export.csv", command_line().encode()), origin).notes
    assert notes == ("holds launches of 2 processes",)


def test_a_graph_has_neither_grid_nor_block() -> None:
    text = command_line().replace("(2, 256, 1)", "(0, 0, 0)").replace(GEMM, "CUDA Graph 7")
    row = rows_of(text)[0]
    assert (row.kernel, row.grid) == ("CUDA Graph 7", None)
    assert row.pagoda_flop == 2_168_455_168


def hostile(column: str, *cells: str) -> str:
    head = f'"ID","Function Name","{TIME} [ns]","{column}"'
    return "\n".join((head, *(f'"{n}","k","100","{cell}"' for n, cell in enumerate(cells)), ""))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            ",".join(["Kernel Name", *(f"sm__m{n}.sum" for n in range(1_000_000))]),
            "1,000,001 columns",
        ),
        (hostile(TENSOR, "1" * 1_000_000), "cannot read line 2"),
        (hostile(TENSOR, "inf"), "line 2"),
        (hostile(TENSOR, "5", "-5"), "line 3"),
        (hostile(TENSOR, "1e300"), "line 2"),
        (hostile(f"{TENSOR} [parsec]", "5"), "an unknown unit"),
        (hostile(f"{TENSOR} [<b>\x1b[31m]", "5"), "an unknown unit"),
        (hostile(TENSOR, "5 inst", "6"), "line 2"),
        (f"Kernel Name,{TENSOR} [inst],{TENSOR} [Kinst]\nk,1,2\n", "more than once"),
        (bytes(range(256)) * 100, "is not"),
        (b"NVR\0" + bytes(range(256)), "is a report"),
        (b"\x1f\x8b\x08" + bytes(100), "is a report or an archive"),
        ('"ID","Function Name"\n', "no kernel launch"),
        ("Kernel Name\n", "is not an export"),
    ],
)
def test_hostile_files_are_one_line(data: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as error:
        rows_of(data)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_nan_is_not_counted() -> None:
    (row,) = rows_of(hostile(TENSOR, "NaN"))
    assert (row.work_flop, row.pagoda_flop) == (None, None)
    assert row.time_s == pytest.approx(1e-7)


@given(st.integers(0, len(gui(english))), st.sampled_from(sorted(map(str, EXPORTS))))
def test_a_file_that_was_cut_is_read_up_to_there(at: int, shape: str) -> None:
    export = EXPORTS[shape]
    try:
        rows = rows_of(export[:at])
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - whether it is raised is open
        return
    assert all(row.work_flop in (None, WORK[row.kernel][0]) for row in rows)
