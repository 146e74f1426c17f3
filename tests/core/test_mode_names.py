"""When two names are one power mode: spellings, NVIDIA's tables, settings, and what differs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.hardware import (
    NAMED_MODES,
    KnownMode,
    ModeMatch,
    boards_called,
    boards_with,
    contradict,
    find_mode,
    name_one_mode,
)
from mansard.core.hardware.mode_names import Settings
from mansard.core.power_mode import mode_number, nominal_w, plain_name

NAMES = sorted({mode.name for board in NAMED_MODES for mode in board.modes})


def joined(asked: str, known: str, device: str = "") -> bool:
    found = find_mode(KnownMode(asked), [KnownMode(known)], boards_called(device))
    return found is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MODE_15W", "15W"),
        ("15W", "mode 15w"),
        ("MODE_30W_ALL", "30W ALL"),
        ("30w-all", "30W_ALL"),
        ("15 Watts", "15W"),
        ("MAXN", "Max-N"),
        ("MAXN SUPER", "maxn_super"),
        ("MODE_MAXN", "MAXN"),
        ("30W_2CORE", "MODE_30W_2 cores"),
        ("Max-P Core-ARM", "MAXP_CORE_ARM"),
    ],
)
def test_names_that_differ_in_spelling_alone_are_one_mode(one: str, other: str) -> None:
    assert plain_name(one) == plain_name(other)
    assert joined(one, other)
    assert joined(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("15W", "15W_DESKTOP"),
        ("MODE_30W_2CORE", "MODE_30W_4CORE"),
        ("30W", "30W_ALL"),  # a Xavier has four modes of 30 W
        ("15W", "1.5W"),
        ("7W_AI", "7W_CPU"),
        ("MAXN", "MAXQ"),
        ("MAXP_CORE_ALL", "MAXP_CORE_ARM"),
        ("15W", "150W"),
        ("2c", "2W"),
        ("gpu612MHz_4c", "gpu612MHz_14c"),
    ],
)
def test_names_of_other_modes_are_never_joined(one: str, other: str) -> None:
    for device in ("", "Jetson AGX Xavier", "Jetson Orin Nano 4GB", "Jetson TX2"):
        assert not joined(one, other, device)


def spelled(name: str, separator: str, *, is_upper: bool, has_prefix: bool) -> str:
    text = name.replace("_", separator)
    text = text.upper() if is_upper else text.lower()
    return ("MODE_" if has_prefix else "") + text


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["_", " ", "-", "", "  "]),
    st.booleans(),
    st.booleans(),
)
def test_every_named_mode_is_known_in_every_spelling(
    name: str, separator: str, is_upper: bool, has_prefix: bool
) -> None:
    text = spelled(name, separator, is_upper=is_upper, has_prefix=has_prefix)
    assert plain_name(text) == plain_name(name)
    assert plain_name(text).startswith("max") or not math.isnan(nominal_w(text))


def test_no_two_modes_of_one_board_have_one_plain_name() -> None:
    for board in NAMED_MODES:
        plain = [plain_name(mode.name) for mode in board.modes]
        assert len(set(plain)) == len(plain), board.board


@given(st.text(max_size=30))
def test_any_text_has_a_plain_name_that_stays(text: str) -> None:
    assert plain_name(plain_name(text)) == plain_name(text)


def test_maxn_is_maxn_super_where_a_board_has_no_other() -> None:
    assert joined("MAXN", "MAXN_SUPER", "Jetson Orin Nano 8GB Super")
    assert joined("MAXN_SUPER", "MAXN", "Jetson Orin Nano")  # its other file has neither
    # Orin NX has MAXN at 918 MHz and MAXN_SUPER at 1173 MHz, in two files.
    assert not joined("MAXN", "MAXN_SUPER", "Jetson Orin NX 16GB")
    assert joined("MAXN", "MAXN_SUPER", "Jetson Orin NX 16GB Super")
    assert not joined("MAXN", "MAXN_SUPER", "Jetson AGX Orin 64GB")
    assert not joined("MAXN", "MAXN_SUPER")


def test_what_was_seen_tells_which_board_it_is() -> None:
    boards = boards_called("Jetson Orin NX 16GB")
    assert not name_one_mode("MAXN", "MAXN_SUPER", boards)
    # 40W is a mode of the Super file alone.
    seen = boards_with(boards, [KnownMode("40W"), KnownMode("mine")])
    assert [board.board for board in seen] == ["Jetson Orin NX 16GB Super"]
    assert name_one_mode("MAXN", "MAXN_SUPER", seen)


def test_a_number_is_that_of_nvidias_file_of_the_board() -> None:
    # nvpmodel_p3701_0000.conf: 0 MAXN, 1 MODE_15W, 2 MODE_30W, 3 MODE_50W
    assert mode_number("mode 2") == mode_number("2") == mode_number("ID=2") == 2
    assert mode_number("15W") is None
    assert joined("2", "30W", "Jetson AGX Orin 64GB")
    assert not joined("2", "15W", "Jetson AGX Orin 64GB")
    assert not joined("2", "30W")  # of an unknown board it is nothing
    assert not joined("9", "30W", "Jetson AGX Orin 64GB")


SETTINGS: dict[str, float | None] = {
    "gpu_hz": 612e6,
    "memory_hz": 3199e6,
    "cpu_hz": 1728e6,
    "n_sms": 8,
    "n_cpus": 8,
}


def by_settings(asked: Settings, known: Settings) -> bool:
    return find_mode(KnownMode("a", asked), [KnownMode("b", known)]) is not None


def test_equal_settings_make_one_mode() -> None:
    assert by_settings(SETTINGS, SETTINGS)
    assert by_settings(SETTINGS, SETTINGS | {"gpu_hz": 612.4e6})  # cut to whole MHz
    assert not by_settings(SETTINGS, SETTINGS | {"gpu_hz": 624.75e6})
    assert not by_settings(SETTINGS, SETTINGS | {"n_sms": 16})
    assert not by_settings(SETTINGS, SETTINGS | {"cpu_hz": None})  # it may be another
    assert not by_settings({"gpu_hz": 612e6}, {"gpu_hz": 612e6})  # one clock makes no mode


def test_a_name_joins_nothing_that_its_settings_contradict() -> None:
    known = [KnownMode("15W", SETTINGS), KnownMode("30W", SETTINGS | {"gpu_hz": 900e6})]
    asked = KnownMode("15W", SETTINGS | {"gpu_hz": 408e6})
    assert find_mode(asked, known) is None
    # by its clocks it is the other one, whatever it is called
    asked = KnownMode("15W", SETTINGS | {"gpu_hz": 900e6})
    assert find_mode(asked, known) == ModeMatch("30W", "their clocks, cores and SMs are equal")
    assert contradict({"n_cpus": 4}, {"n_cpus": 2})
    assert not contradict({"gpu_hz": 670e6}, {"gpu_hz": 675.75e6})  # to a board's own step
    assert not contradict({}, SETTINGS)


def test_of_several_that_it_may_be_none_is_taken() -> None:
    known = [KnownMode("b", SETTINGS), KnownMode("c", SETTINGS)]
    assert find_mode(KnownMode("a", SETTINGS), known) is None


def test_the_watts_in_a_name_do_not_depend_on_its_spelling() -> None:
    for name in ("15W", "MODE_15W", "15 w", "mode 15W-desktop"):
        assert nominal_w(name) == 15
    assert math.isinf(nominal_w("Max-N super"))
    assert math.isnan(nominal_w("MAXQ"))
    assert math.isnan(nominal_w("gpu15MHz"))
