"""Numbers for uncapped clocks, and the peaks that follow from a mode's clocks and cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.hardware import MODULES
from mansard.core.records import PowerMode
from mansard.device.nvpmodel.config import parse_config
from mansard.device.nvpmodel.modes import board_modes
from mansard.device.power_modes.listing import (
    Highest,
    HighestClocks,
    find_highest,
    list_board,
    list_config,
    predict,
    resolve,
)
from tests.device.nvpmodel_files import CONFIG, make_board, write

CPU = "sys/devices/system/cpu"
GPU = "sys/devices/17000000.ga10b/devfreq/17000000.ga10b"
ORIN = MODULES["p3701-0005"]


def mode(name: str, text: str = CONFIG) -> PowerMode:
    found = board_modes(parse_config(text, "x.conf"), "x.conf").find(name)
    assert found is not None
    return found.mode


HIGHEST = HighestClocks(
    cpu={0: Highest(2e9, "a table"), 2: Highest(1e9, "a table")},
    gpu=Highest(1.3e9, "the kernel"),
    memory=Highest(3.2e9, "a table"),
)


def test_uncapped_clocks_get_their_highest_and_its_source() -> None:
    resolved = resolve(mode("MAXN"), HIGHEST)
    assert (resolved.mode.gpu_hz, resolved.mode.memory_hz) == (1.3e9, 3.2e9)
    assert [one.max_hz for one in resolved.mode.clusters] == [2e9, 1e9]
    assert resolved.mode.cpu_hz == 2e9
    assert resolved.notes == {"cpu_hz": "a table", "gpu_hz": "the kernel", "memory_hz": "a table"}
    # Nothing tells what the DLA can reach: it stays uncapped.
    assert resolved.mode.dla_hz is None
    assert resolved.mode.unknown["dla_hz"] == "uncapped"


def test_caps_are_left_as_they_are() -> None:
    assert resolve(mode("15W"), HIGHEST).mode == mode("15W")
    assert resolve(mode("15W"), HIGHEST).notes == {}


def test_one_cluster_without_a_number_leaves_the_fastest_open() -> None:
    highest = HighestClocks(cpu={0: Highest(2e9, "a table")})
    resolved = resolve(mode("MAXN"), highest)
    assert [one.max_hz for one in resolved.mode.clusters] == [2e9, None]
    assert resolved.mode.cpu_hz is None
    assert resolved.mode.unknown["cpu_hz"] == "uncapped"


def test_what_a_mode_does_not_set_is_not_filled_in() -> None:
    text = CONFIG.replace("GPU MAX_FREQ -1\n", "")
    assert resolve(mode("MAXN", text), HIGHEST).mode.gpu_hz is None


@given(
    st.sampled_from(["MAXN", "15W"]),
    st.none() | st.floats(1e6, 1e10),
    st.none() | st.floats(1e6, 1e10),
)
def test_resolving_twice_changes_nothing_more(
    name: str, gpu_hz: float | None, cpu_hz: float | None
) -> None:
    highest = HighestClocks(
        cpu={0: Highest(cpu_hz, "x"), 2: Highest(cpu_hz, "x")} if cpu_hz else {},
        gpu=Highest(gpu_hz, "x") if gpu_hz else None,
    )
    once = resolve(mode(name), highest).mode
    again = resolve(once, highest)
    assert again.mode == once
    assert again.notes == {}


def test_the_kernels_tables_win_over_the_modules(tmp_path: Path) -> None:
    write(tmp_path, f"{GPU}/max_freq", "612000000")
    write(tmp_path, f"{GPU}/min_freq", "306000000")
    write(tmp_path, f"{GPU}/available_frequencies", "306000000 612000000 1000000000\n")
    highest = find_highest(tmp_path, ORIN)
    assert highest.gpu == Highest(1e9, "the highest that the kernel lists")
    # Nothing in this tree tells of the memory: the module does, with its source.
    assert highest.memory is not None
    assert highest.memory.hz == 3199e6
    assert "Jetson AGX Orin 64GB" in highest.memory.source
    assert highest.cpu[11].hz == 2201.6e6


def test_a_mode_that_leaves_the_gating_alone_has_what_is_on_at_present(tmp_path: Path) -> None:
    text = CONFIG.replace("TPC_POWER_GATING TPC_PG_MASK 248\n", "")
    assert mode("15W", text).n_sms is None
    write(tmp_path, "sys/devices/gpu.0/tpc_pg_mask", "240\n")
    resolved = resolve(mode("15W", text), find_highest(tmp_path, ORIN))
    assert resolved.mode.n_sms == 8  # 2 × (8 - 4)
    assert resolved.notes == {"n_sms": "on at present"}


def test_a_super_configuration_has_higher_clocks() -> None:
    nano = MODULES["p3767-0003"]
    plain, faster = find_highest(None, nano), find_highest(None, nano, is_super=True)
    assert plain.gpu is not None
    assert faster.gpu is not None
    assert (plain.gpu.hz, faster.gpu.hz) == (625e6, 1020e6)


def test_without_module_and_board_nothing_is_filled_in() -> None:
    assert find_highest(None, None) == HighestClocks(cpu={})


def test_the_peaks_of_agx_orin_at_15w() -> None:
    found = predict(mode("15W"), ORIN, ORIN)
    assert found.cuda_cores == 768  # 6 SMs of 128
    # 6 SMs × 128 cores × 2 FLOP × 408 MHz
    assert found.fp32_flop_per_s == pytest.approx(626.688e9)
    # 6 SMs × 2048 FLOP × 408 MHz
    assert found.fp16_tensor_flop_per_s == pytest.approx(5013.504e9)
    # 3199 MHz × 2 × 32 bytes; the GPU gets what its port carries at 408 MHz, 81 GB/s on a board
    assert found.memory_bytes_per_s == pytest.approx(204.736e9)
    assert found.memory_roof_bytes_per_s == pytest.approx(83e9, rel=0.05)
    assert found.unknown == {}


def test_peaks_that_need_a_missing_number_say_which() -> None:
    found = predict(mode("MAXN"), ORIN, None)
    assert found.fp32_flop_per_s is None
    assert "GPU's clock is uncapped" in found.unknown["fp32_flop_per_s"]
    assert "module is unknown" in found.unknown["memory_bytes_per_s"]
    assert found.cuda_cores == 2048
    nothing = predict(mode("15W"), None, None)
    assert set(nothing.unknown) == {
        "cuda_cores",
        "fp32_flop_per_s",
        "fp16_tensor_flop_per_s",
        "memory_bytes_per_s",
        "memory_roof_bytes_per_s",
    }


def test_a_chip_without_tensor_cores_says_so() -> None:
    tx2 = MODULES["p3310-1000"]
    found = predict(mode("15W"), tx2, tx2)
    assert found.unknown["fp16_tensor_flop_per_s"] == "this chip has no such unit"


def test_a_listing_marks_the_present_mode_and_the_default(tmp_path: Path) -> None:
    listing = list_board(make_board(tmp_path, present=0))
    assert (listing.present, listing.default) == ("MAXN", "15W")
    assert [(one.is_present, one.is_default) for one in listing.modes] == [
        (True, False),
        (False, True),
    ]
    assert [one.may_need_reboot is not None for one in listing.modes] == [False, True]
    assert listing.is_simulated is False
    assert listing.notes == ()


def test_a_listing_without_the_present_mode_says_why(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    (root / "usr/sbin/nvpmodel").unlink()
    (root / "var/lib/nvpmodel/status").unlink()
    listing = list_board(root)
    assert listing.present is None
    assert "cannot be found out" in listing.notes[0]
    assert not any(one.is_present for one in listing.modes)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("nvpmodel_p3767_0003_super.conf", "Jetson Orin Nano 8GB"),
        ("nvpmodel_p3701_0005.conf", "Jetson AGX Orin 64GB"),
        ("nvpmodel_p3701_00051.conf", None),
        ("nvpmodel.conf", None),
    ],
)
def test_a_files_name_tells_the_module(tmp_path: Path, name: str, module: str | None) -> None:
    listing = list_config(write(tmp_path, name, CONFIG))
    assert listing.module == module
    assert ("holds no part number" in listing.notes[0]) is (module is None)
