"""Settings of NVIDIA's named modes that a table leaves out."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.published.cells import LARGEST_COUNT
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.modes import FilledModes, fill_modes
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import (
    known_modes,
    published_modes,
    read_published,
    write_published,
)
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.core.hardware import NAMED_MODES
from mansard.core.records import PublishedMode

SETTINGS = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus", "power_limit_w")


def mode(name: str, **known: float) -> PublishedMode:
    values = {setting: known.get(setting) for setting in SETTINGS}
    unknown = {setting: "not in it" for setting, value in values.items() if value is None}
    return PublishedMode(name=name, **values, unknown=unknown)  # type: ignore[arg-type]


def filled(device: str, *modes: PublishedMode) -> FilledModes:
    return fill_modes(device, "gpu", {one.name: one for one in modes})


def test_a_name_brings_the_settings_of_the_board() -> None:
    found = filled("Jetson Orin Nano Super", mode("7W", gpu_hz=408e6), mode("MAXN"))
    # nvpmodel_p3767_0003.conf, 7W: mask 252 leaves 2 of 8 TPCs, so 4 SMs; EMC 2133 MHz
    low, high = found.modes["7W"], found.modes["MAXN"]
    assert (low.gpu_hz, low.memory_hz, low.cpu_hz, low.n_sms, low.n_cpus) == (
        *(408e6, 2133e6, 960e6),
        *(4, 4),
    )
    assert (high.gpu_hz, high.memory_hz, high.n_sms) == (1020e6, 3199e6, 8)
    assert set(low.unknown) == {"power_limit_w"}
    assert found.notes == (
        "SMs, EMC clock, CPU clock and cores of 7W from NVIDIA's modes of Jetson Orin Nano 8GB "
        "Super: the table does not say them",
        "SMs, EMC clock, GPU clock, CPU clock and cores of MAXN from NVIDIA's modes of Jetson "
        "Orin Nano 8GB Super: the table does not say them",
    )


def test_what_the_table_says_stands() -> None:
    # The author's 25W has 820 MHz where NVIDIA's cap is 918.
    found = filled("Orin Nano Super", mode("25W", gpu_hz=820e6, cpu_hz=1420e6)).modes["25W"]
    assert (found.gpu_hz, found.cpu_hz, found.memory_hz, found.n_sms) == (820e6, 1420e6, 3199e6, 8)


def test_boards_that_differ_fill_what_they_agree_on() -> None:
    found = filled("Orin Nano", mode("15W"))
    # 8GB: no cap (625 MHz); 8GB Super: 612 MHz. Both: 8 SMs, 2133 MHz, 6 cores; 4GB has no 15W.
    only = found.modes["15W"]
    assert (only.n_sms, only.memory_hz, only.n_cpus) == (8, 2133e6, 6)
    assert (only.gpu_hz, only.cpu_hz) == (None, None)
    assert only.unknown["gpu_hz"] == "not in it"
    assert found.notes[1] == (
        "Orin Nano may be Jetson Orin Nano 8GB or Jetson Orin Nano 8GB Super, which differ, so "
        "that these stay unknown: GPU clock: 15W 612MHz or 625MHz; CPU clock: 15W 1497MHz or "
        "1510MHz; import it with the board's whole name as --device to have them filled"
    )


def test_the_modes_of_a_table_tell_the_board() -> None:
    # Of the four only the 8GB Super has both; 25W alone may be the 4GB Super's, with 4 SMs.
    assert filled("Orin Nano", mode("15W"), mode("25W")).modes["25W"].n_sms == 8
    assert filled("Orin Nano", mode("25W")).modes["25W"].n_sms is None
    # Its SMs tell it too.
    assert filled("Orin Nano", mode("25W", n_sms=4)).modes["25W"].gpu_hz == 1020e6
    # 64GB and its kit have the same modes; the 32GB module has 14 SMs in MAXN and no 50W.
    assert filled("AGX Orin", mode("MAXN")).modes["MAXN"].n_sms is None
    assert filled("AGX Orin", mode("MAXN"), mode("50W")).modes["MAXN"].n_sms == 16


def test_a_mode_with_other_clocks_is_not_nvidias() -> None:
    # 15W of an AGX Orin has at most 408 MHz: this one is somebody's own.
    own = mode("15W", gpu_hz=1300e6)
    found = filled("AGX Orin 64GB", own, mode("30W"))
    assert found.modes == {"15W": own, "30W": mode("30W")}
    assert found.notes == (
        "the modes of AGX Orin 64GB have names of NVIDIA's modes, and other GPU clocks, EMC "
        "clocks or SMs: what the table does not say of them stays unknown",
    )


def test_no_board_and_no_named_mode_fill_nothing() -> None:
    for device, name in (("GTX 1080 Ti", "MAXN"), ("AGX Orin 64GB", "gpu816MHz"), ("B", "15W")):
        one = mode(name)
        assert filled(device, one) == FilledModes({name: one}, ())


def test_a_cpu_has_no_sms() -> None:
    found = fill_modes("AGX Orin 64GB", "cpu", {"15W": mode("15W")}).modes["15W"]
    assert (found.n_sms, found.gpu_hz) == (None, None)
    assert (found.cpu_hz, found.n_cpus, found.memory_hz) == (1113.6e6, 4, 2133e6)


names = st.sampled_from(sorted({one.name for board in NAMED_MODES for one in board.modes}))
boards = st.sampled_from([board.board for board in NAMED_MODES])
hz = st.none() | st.floats(1e8, 5e9)
counts = st.none() | st.integers(1, LARGEST_COUNT)


@given(boards, names, hz, hz, counts)
def test_nothing_that_a_table_says_is_changed(
    device: str, name: str, gpu_hz: float | None, memory_hz: float | None, n_sms: int | None
) -> None:
    said = {"gpu_hz": gpu_hz, "memory_hz": memory_hz, "n_sms": n_sms}
    known = {setting: value for setting, value in said.items() if value is not None}
    found = filled(device, mode(name, **known)).modes[name]
    assert {setting: getattr(found, setting) for setting in known} == known
    again = filled(device, found)
    assert again.modes[name] == found  # what was filled contradicts nothing


def put(runs: Path, table: Path, device: str = "Jetson Orin Nano Super") -> None:
    origin = PublishedOrigin(device=device, processor="gpu", citation="A")
    write_published(runs, import_table(table, origin))


@pytest.mark.shared_data
def test_a_table_without_sms_and_emc_has_the_same_modes(shared_data: Path, tmp_path: Path) -> None:
    (whole,) = (shared_data / "power_modes").glob("*SmolHub__orin_nano_super_llm*.csv")
    rows = list(csv.DictReader(whole.read_text().splitlines()))
    kept = [name for name in rows[0] if name not in {"sms", "emc_mhz"}]
    less = tmp_path / "less.csv"
    with less.open("w") as file:
        writer = csv.DictWriter(file, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    put(tmp_path / "whole", whole)
    put(tmp_path / "less", less)
    wanted = published_modes(read_published(tmp_path / "whole"))
    assert published_modes(read_published(tmp_path / "less")).equals(wanted)
    assert wanted.select("mode", "n_sms", "memory_hz").rows() == [
        ("7W", 4, 2133e6), ("15W", 8, 2133e6), ("25W", 8, 3199e6), ("MAXN", 8, 3199e6)
    ]  # fmt: skip


def test_roofs_have_the_sms_of_their_modes(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("mode,fp32_gflops\n15W,400\n")
    put(tmp_path, table, "Jetson AGX Orin 64GB")
    (roof,) = published_rooflines(read_published(tmp_path))
    assert (roof.n_sms, roof.n_cpus) == (6, 4)


def test_a_mode_has_what_any_table_says_of_it(tmp_path: Path) -> None:
    for text in (
        "mode,network,time_ms\nlow,net,3\n",
        "mode,network,gpu_mhz,time_ms\nlow,net,400,2\n",
    ):
        table = tmp_path / "t.csv"
        table.write_text(text)
        put(tmp_path, table, "Board")
    published = read_published(tmp_path)
    assert published_modes(published).select("device", "mode", "gpu_hz").rows() == [
        ("Board (published)", "low", 4e8)
    ]
    assert known_modes(published).notes == {"Board (published)": ()}


def test_tables_that_mean_other_clocks_by_a_mode_are_apart(tmp_path: Path) -> None:
    for clock in (400, 800):
        table = tmp_path / "t.csv"
        table.write_text(f"mode,network,gpu_mhz,time_ms\nlow,net,{clock},3\n")
        put(tmp_path, table, "Board")
    modes = published_modes(read_published(tmp_path))
    assert modes.select(pl.col("device").n_unique(), pl.col("gpu_hz").sort()).rows() == [
        (2, 4e8), (2, 8e8)
    ]  # fmt: skip
