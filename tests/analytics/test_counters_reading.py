"""Exports of Nsight Compute: pages, units, styles of numbers, and files that are damaged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.counters.launch import (
    capability,
    has_decimal_comma,
    parse_number,
    triple,
    unit_factor,
)
from mansard.core.errors import InputError
from tests.analytics.ncu_exports import details_page, raw_page, read

TIME = "gpu__time_duration.sum"
CYCLES = "sm__cycles_elapsed.avg"
BYTES = "dram__bytes.sum"
SECTORS = "lts__d_sectors_fill_sysmem.sum"


def test_base_units_with_groups_and_scaled_units_are_the_same() -> None:
    # 15,136 ns and 0.015136 ms are 15.136 µs; 16.384 Kbyte are 16,384 bytes.
    base = read(raw_page({TIME: "ns", BYTES: "byte"}, [["15,136", "16,384"]]))
    scaled = read(raw_page({TIME: "ms", BYTES: "Kbyte"}, [["0.015136", "16.384000"]]))
    for export in (base, scaled):
        (launch,) = export.launches
        assert math.isclose(launch.metrics[TIME], 15.136e-6)
        assert math.isclose(launch.metrics[BYTES], 16384)
        assert (launch.grid, launch.block) == ((2, 256, 1), (128, 1, 1))
        assert (launch.kernel, launch.compute_capability) == ("k0", 87)
        assert export.notes == ()


def test_units_of_a_details_page_change_from_row_to_row() -> None:
    rows = [
        ("0", "gemm", "GPU Speed Of Light Throughput", "Duration", "us", "542.00"),
        ("0", "gemm", "GPU Speed Of Light Throughput", "SM Frequency", "Ghz", "1.01"),
        ("0", "gemm", "SpeedOfLight", "", "", ""),
        ("1", "copy", "GPU Speed Of Light Throughput", "Duration", "ms", "1.50"),
        ("1", "copy", "GPU Speed Of Light Throughput", "SM Frequency", "Mhz", "998.40"),
    ]
    first, second = read(details_page(rows)).launches
    clock = "gpc__cycles_elapsed.avg.per_second"
    assert (first.kernel, second.kernel) == ("gemm", "copy")
    assert first.metrics == pytest.approx({TIME: 542e-6, clock: 1.01e9})
    assert second.metrics == pytest.approx({TIME: 1.5e-3, clock: 998.4e6})


def test_a_summary_has_the_mean_and_how_often() -> None:
    head = '"Process ID","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
    head += '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
    row = '"7","gemm","(256, 1, 1)","(57, 3, 1)","0","8.7","3","S","Duration","us","86.18","87.49",'
    (launch,) = read(head + row + '"86.67"\n').launches
    assert launch.n_launches == 3
    assert launch.metrics == pytest.approx({TIME: 86.67e-6})
    for count in ("0", "-3", "x", "000000000001" + "1" * 5000):
        with pytest.raises(InputError, match="invocations"):
            read(head + row.replace('"3"', f'"{count}"') + '"86.67"\n')


def test_text_of_sections() -> None:
    text = """[7] python@host
  gemm<float, 4>(T1 *, int) (1024, 1, 1)x(4, 32, 1), Context 1, Stream 7, Device 0, CC 8.7
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    SM Frequency                    Mhz       305.41
    Duration                         us       106.46
    # SMs                            SM            4
    ----------------------- ----------- ------------
"""
    (launch,) = read(text).launches
    assert (launch.kernel, launch.grid) == ("gemm<float, 4>(T1 *, int)", (1024, 1, 1))
    assert launch.metrics[TIME] == pytest.approx(106.46e-6)
    assert launch.metrics["launch__sm_count"] == 4


def test_a_table_of_metrics_is_in_base_units() -> None:
    export = read(f"N,cin,{TIME},{BYTES}\n8,512,15136,4096\n")
    assert export.launches[0].metrics == pytest.approx({TIME: 15.136e-6, BYTES: 4096})
    assert export.launches[0].kernel == "N=8, cin=512"
    assert "units" in export.notes[0]


def test_what_a_program_printed_stands_before_the_table() -> None:
    page = raw_page({TIME: "ns"}, [["15,136"]])
    export = read("epoch 1, loss 0.5\n==PROF== Connected to process 7\n" + page)
    assert export.launches[0].metrics[TIME] == pytest.approx(15.136e-6)
    assert export.launches[0].line == 5


def test_messages_and_other_lines_between_rows() -> None:
    page = raw_page({TIME: "ns"}, [["1"], ["2"]])
    head, units, first, second = page.splitlines()
    text = "\n".join((head, units, first, "loss 0.3", "==PROF== Disconnected", second, ""))
    export = read(text)
    assert [launch.line for launch in export.launches] == [3, 6]
    assert export.notes == ("lines that are no rows of the table were left out: 1",)


def test_ranges_around_a_launch() -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    kinds = ":none:none:none:none:none:none"
    cell = f'7  "<default domain>:call 0{kinds}"  "mine:layer a:b{kinds}" '
    launches = read(raw_page({column: "", TIME: "ns"}, [[cell, "1"], ["", "1"]])).launches
    assert launches[0].nvtx == ("call 0", "layer a:b")
    assert launches[1].nvtx == ()
    assert read(raw_page({TIME: "ns"}, [["1"]])).launches[0].nvtx is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_encodings(encoding: str) -> None:
    page = raw_page({TIME: "ns"}, [["100"]], ["größe"])
    assert read(page.encode(encoding)).launches[0].kernel == "größe"


def test_a_decimal_comma_holds_for_the_whole_file() -> None:
    # "15.136" beside "0,52" is 15136, and 15.136 elsewhere.
    page = raw_page({TIME: "ns", CYCLES: "cycle"}, [["15.136", "0,52"]])
    assert read(page).launches[0].metrics[TIME] == pytest.approx(15.136e-6)
    page = raw_page({TIME: "ns", CYCLES: "cycle"}, [["15.136", "0,123"]])
    assert read(page).launches[0].metrics[TIME] == pytest.approx(15.136e-6)
    page = raw_page({TIME: "ns", CYCLES: "cycle"}, [["15.136", "0.52"]])
    assert read(page).launches[0].metrics[TIME] == pytest.approx(15.136e-9)


def test_what_could_not_be_collected_is_absent() -> None:
    page = raw_page({TIME: "ns", BYTES: "byte"}, [["100", "(!) n/a"], ["100", "n/a"]])
    assert all(set(launch.metrics) == {TIME} for launch in read(page).launches)


def test_a_row_that_was_cut_is_left_out_with_a_note() -> None:
    page = raw_page({TIME: "ns", CYCLES: "cycle"}, [["100", "2000"], ["100", "2000"]])
    for n_characters in (3, 10, 40):
        export = read(page[:-n_characters])
        assert len(export.launches) == 1
        assert "middle of a row" in export.notes[0]
    whole = read(page.rstrip("\n"))  # its last cell is closed: nothing is missing
    assert len(whole.launches) == 2
    assert whole.notes == ()


def test_a_last_launch_with_fewer_metrics_is_kept_with_a_note() -> None:
    def rows(number: str) -> list[tuple[str, str, str, str, str, str]]:
        names = (("Duration", "us", "5.00"), ("# SMs", "SM", "8"))
        return [(number, "gemm", "S", *each) for each in names]

    export = read(details_page([*rows("0"), *rows("1"), *rows("2")[:1]]))
    assert [set(launch.metrics) for launch in export.launches[1:]] == [
        {TIME, "launch__sm_count"},
        {TIME},
    ]
    assert "its last launch lacks 1" in export.notes[0]


def test_a_table_without_quotes_may_end_without_a_line_end() -> None:
    export = read(f"N,{TIME},{BYTES}\n8,1,2\n9,1,2")
    assert [launch.metrics[BYTES] for launch in export.launches] == [2, 2]
    assert len(read(f"N,{TIME},{BYTES}\n8,1,2\n9,1").launches) == 1


def test_tables_one_after_the_other_are_launches_of_all() -> None:
    # What several processes under ncu print into one file (mpirun): each its header and units.
    page = raw_page({TIME: "ns", BYTES: "Kbyte"}, [["100", "2.00"], ["300", "4.00"]])
    export = read(page + "==PROF== Disconnected\n" + 2 * page)
    assert [one.metrics[BYTES] for one in export.launches] == 3 * [2000, 4000]
    assert export.notes == ("holds 3 tables, one after the other",)
    details = details_page([("0", "gemm", "S", "Duration", "us", "5.00")])
    export = read(details + details.replace("5.00", "7.00") + details)
    assert [one.metrics[TIME] for one in export.launches] == pytest.approx([5e-6, 7e-6, 5e-6])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not an export"),
        ("a,b\n1,2\n", "is not an export"),
        (b"NVR\x00\x01", "is a report"),
        (b"\x00\x01\x02", "is not text"),
        (raw_page({TIME: "fortnight"}, [["1"]]), "an unknown unit"),
        (raw_page({TIME: "ns"}, [["=cmd|calc"]]), "not a count"),
        (raw_page({TIME: "ns"}, [["-5"]]), "not a count"),
        (raw_page({TIME: "ns"}, [["inf"]]), "not a count"),
        (raw_page({TIME: "ns"}, [["1e999"]]), "not a count"),
        (raw_page({TIME: "ns"}, []), "no kernel launch"),
        (raw_page({TIME: "ns", CYCLES: "cycle"}, [["1,5", "0.52"]]), "two languages"),
        (f"Kernel Name,{TIME},{TIME}\nk,1,2\n", "more than once"),
    ],
)
def test_bad_files_are_one_line(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as error:
        read(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_line_of_a_bad_cell_is_said() -> None:
    page = raw_page({TIME: "ns"}, [["1"], ["2"], ["x"]])
    with pytest.raises(InputError, match="line 5"):
        read(page)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for start in (b"", b'"Kernel Name","gpu__time_duration.sum"\n'):
        try:
            found = read(start + data)
        except InputError:
            continue
        assert found.launches


@given(st.floats(0, 1e15), st.sampled_from(["", ",", "\u202f", "'"]))
def test_a_number_is_read_as_it_was_written(value: float, group: str) -> None:
    text = f"{value:,.4f}".replace(",", group)
    assert parse_number(text, comma=False) == pytest.approx(value, abs=1e-4)
    swapped = f"{value:,.4f}".translate(str.maketrans(",.", ".,"))
    assert parse_number(swapped, comma=True) == pytest.approx(value, abs=1e-4)
    assert has_decimal_comma([swapped], "file")


def test_units_are_factors() -> None:
    # A cycle a ns is 1e9 a second; a Kbyte is 1000 bytes.
    expected = {
        "ns": 1e-9,
        "us": 1e-6,
        "msecond": 1e-3,
        "Ghz": 1e9,
        "cycle/nsecond": 1e9,
        "Kbyte": 1e3,
        "Gbyte/s": 1e9,
        "byte/block": 1,
        "sector": 1,
        "%": 1,
        "": 1,
        "inst/cycle": 1,
    }
    assert {unit: unit_factor(unit) for unit in expected} == pytest.approx(expected)
    assert unit_factor("parsec") is None


def test_grids_and_capabilities() -> None:
    assert triple("(2, 256, 1)") == (2, 256, 1)
    assert triple("256") is None
    assert (capability("8.7"), capability("12.1"), capability("x")) == (87, 121, None)
