"""Modes of more nominal power with a lower clock: the pairs, and what is said of them."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.hardware import NAMED_MODES, KnownMode, lower_settings
from mansard.core.power_mode import nominal_w
from mansard.device.power_modes.listing import list_config

FIELDS = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus")


def of_board(board: str) -> list[KnownMode]:
    (named,) = (each for each in NAMED_MODES if each.board == board)
    modes = map(named.uncapped, named.modes)
    return [KnownMode(m.name, {name: getattr(m, name) for name in FIELDS}) for m in modes]


def pairs(modes: list[KnownMode]) -> list[tuple[str, str, str, float, float]]:
    return [
        (x.setting, x.higher, x.lower, x.higher_value, x.lower_value) for x in lower_settings(modes)
    ]


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        ("Jetson AGX Orin 64GB", [("cpu_hz", "50W", "30W", 1497.6e6, 1728e6)]),
        ("Jetson AGX Orin 32GB", [("cpu_hz", "40W", "30W", 1497.6e6, 1728e6)]),
        ("Jetson Orin Nano 8GB Super", [("cpu_hz", "25W", "15W", 1344e6, 1497.6e6)]),
        # 8 SMs at 408 MHz do more than 4 at 612 MHz (3264 against 2448), but each is slower.
        (
            "Jetson Orin NX 16GB",
            [
                ("cpu_hz", "25W", "15W", 1497.6e6, 1651.2e6),
                ("gpu_hz", "25W", "10W", 408e6, 612e6),
            ],
        ),
        ("Jetson Orin Nano 4GB Super", []),
        ("Jetson TX2", []),  # MAXQ and MAXP name no power
    ],
)
def test_boards_whose_modes_contradict_their_powers(
    board: str, expected: list[tuple[str, str, str, float, float]]
) -> None:
    assert pairs(of_board(board)) == expected


def test_the_pair_in_words() -> None:
    (pair,) = lower_settings(of_board("Jetson AGX Orin 64GB"))
    assert pair.text == (
        "50W has a CPU clock of 1497.6 MHz, 30W 1728 MHz: a network bound by its host (launches, "
        "work on the CPU) is slower in 50W, though its nominal power is higher"
    )


def test_of_several_modes_the_one_that_lacks_most_is_named() -> None:
    # Below 20W the CPU runs at up to 2 GHz: 20W lacks a factor of 1.25, 30W of 2.
    hz = {"10W": 2e9, "20W": 1.6e9, "30W": 1e9, "MAXN": 2.2e9}
    (pair,) = lower_settings([KnownMode(name, {"cpu_hz": value}) for name, value in hz.items()])
    assert (pair.higher, pair.lower, pair.n_modes) == ("30W", "10W", 2)
    assert pair.text.endswith("; the same holds of 1 more mode")


def test_of_the_modes_that_are_asked_for_the_one_that_lacks_most_is_named() -> None:
    # As above: 20W alone is asked for, then 30W with the modes that lack nothing.
    hz = {"10W": 2e9, "20W": 1.6e9, "30W": 1e9, "MAXN": 2.2e9}
    modes = [KnownMode(name, {"cpu_hz": value}) for name, value in hz.items()]
    (pair,) = lower_settings(modes, {"20W"})
    assert (pair.higher, pair.lower, pair.n_modes) == ("20W", "10W", 1)
    (pair,) = lower_settings(modes, {"30W", "10W", "MAXN"})
    assert (pair.higher, pair.lower, pair.n_modes) == ("30W", "10W", 1)
    assert lower_settings(modes, {"10W", "MAXN"}) == ()


def test_fewer_cores_count_where_their_clock_does_not_make_up_for_it() -> None:
    # 2 × 2.4 GHz = 4.8 GHz is as much as 4 × 1.2 GHz; 2 × 1.5 GHz = 3 GHz is not.
    def settings(hz: float) -> list[KnownMode]:
        few = KnownMode("30W", {"n_cpus": 2, "cpu_hz": hz})
        return [few, KnownMode("15W", {"n_cpus": 4, "cpu_hz": 1.2e9})]

    assert lower_settings(settings(2.4e9)) == ()
    (pair,) = lower_settings(settings(1.5e9))
    assert (pair.setting, pair.higher_value, pair.lower_value) == ("n_cpus", 2, 4)
    assert pair.text.startswith("30W has 2 cores, 15W 4: work that uses all cores is slower in 30W")


@pytest.mark.parametrize(
    "modes",
    [
        # Equal powers, roundings (1190 MHz of 1190.4), clocks that are not known, other names.
        {"30W_ALL": 1e9, "30W_2CORE": 2e9},
        {"30W": 1190e6, "15W": 1190.4e6},
        {"30W": None, "15W": 2e9},
        {"gpu612MHz": 1e9, "15W": 2e9},
        {},
    ],
)
def test_modes_that_contradict_nothing(modes: dict[str, float | None]) -> None:
    assert lower_settings([KnownMode(name, {"cpu_hz": hz}) for name, hz in modes.items()]) == ()


clocks = st.lists(st.sampled_from([None, 8e8, 1e9, 1.01e9, 1.5e9, 2e9]), min_size=2, max_size=8)


@given(clocks, st.data())
def test_there_is_a_pair_where_any_two_modes_are_one(
    hz: list[float | None], data: st.DataObject
) -> None:
    watts = data.draw(st.lists(st.integers(5, 60), min_size=len(hz), max_size=len(hz)))
    modes = [KnownMode(f"{w}W", {"memory_hz": value}) for w, value in zip(watts, hz, strict=True)]
    ratios = [
        low / high
        for one, other in permutations(modes, 2)
        if nominal_w(one.name) > nominal_w(other.name)
        and (high := one.settings["memory_hz"])
        and (low := other.settings["memory_hz"])
        and low > 1.02 * high
    ]
    worst = [pair.lower_value / pair.higher_value for pair in lower_settings(modes)]
    assert worst == ([max(ratios)] if ratios else [])


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ("*p3701_0000.conf", ["50W has a CPU clock of 1497.6 MHz, 30W 1728 MHz"]),
        ("*p3701_0004.conf", ["40W has a CPU clock of 1497.6 MHz, 30W 1728 MHz"]),
        ("*p3767_0003_super.conf", ["25W has a CPU clock of 1344 MHz, 15W 1497.6 MHz"]),
        ("*p3767_0004.conf", []),
        ("*t186.conf", []),
    ],
)
def test_recorded_configurations_say_it(shared_data: Path, conf: str, said: list[str]) -> None:
    (path,) = (shared_data / "nvpmodel").glob(conf)
    notes = [note for note in list_config(path).notes if "nominal power" in note]
    assert [note.partition(":")[0] for note in notes] == said
