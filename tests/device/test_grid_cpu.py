"""Modes of a plain machine: core counts, and caps of the clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MansardError, UsageError
from mansard.core.power_mode import core_count_mode
from mansard.device.holding.acting import planned_steps
from mansard.device.power_modes.selection import available_modes, choose_modes
from tests.device.grid_machines import CPU_STEPS_KHZ, add_cpufreq, machine

ROOT_USER = os.geteuid() == 0


def names(text: str | None, root: Path, *, n_cpus: int = 4, pick: int | None = None) -> list[str]:
    return [mode.name for mode in choose_modes(text, root, machine(n_cpus), pick=pick)]


@pytest.fixture
def clocked(tmp_path: Path) -> Path:
    """Two clusters of two cores; the second goes up to 2.4 GHz."""
    steps = (CPU_STEPS_KHZ[:3], CPU_STEPS_KHZ)
    add_cpufreq(tmp_path, ((0, 1), (2, 3)), steps)
    return tmp_path


def test_without_clocks_core_counts_are_as_ever(tmp_path: Path) -> None:
    assert names(None, tmp_path) == ["4c"]
    assert names("  ", tmp_path) == ["4c"]
    assert names("all", tmp_path) == ["1c", "2c", "3c", "4c"]
    assert names("3c, 1c,3c", tmp_path) == ["3c", "1c"]
    assert names("cores=2; cores=1;cores=2", tmp_path) == ["2c", "1c"]
    assert choose_modes("cores=2", tmp_path, machine(4)) == (core_count_mode(2),)
    assert available_modes(tmp_path, machine(2)) == (core_count_mode(1), core_count_mode(2))


@pytest.mark.parametrize("text", ["5c", "0c", "MAXN", "15W", "2C", "gpu612"])
def test_an_unknown_mode_names_those_that_are(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown power mode .*1c to 4c"):
        choose_modes(text, tmp_path, machine(4))


@pytest.mark.parametrize("text", ["2c@2000MHz", "cores=2,cpu=2GHz", "cpu2000MHz_2c"])
def test_a_cap_holds_for_the_clusters_in_use(text: str, clocked: Path) -> None:
    (mode,) = choose_modes(text, clocked, machine(4))
    assert (mode.name, mode.kind, mode.n_cpus) == ("cpu2000MHz_2c", "cores", 2)
    assert mode.cpu_hz == 2e9
    assert [(one.cpus, one.max_hz) for one in mode.clusters] == [((0, 1), 2e9)]


def test_a_cap_is_set_without_switching_cores_off(clocked: Path) -> None:
    (mode,) = choose_modes("2c@2000MHz", clocked, machine(4))
    steps = planned_steps(clocked, mode)
    assert [(step.target, step.value) for step in steps] == [
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2000000")
    ]


def test_a_cluster_that_lacks_the_clock_takes_its_next_below(clocked: Path) -> None:
    (mode,) = choose_modes("4c@2400MHz", clocked, machine(4))
    assert mode.cpu_hz == 2.4e9
    assert [one.max_hz for one in mode.clusters] == [2e9, 2.4e9]


def test_a_clock_of_cores_that_are_off_is_not_there(clocked: Path) -> None:
    with pytest.raises(UsageError, match=r"none of the cores that are on has 2400MHz.*2000MHz, 15"):
        choose_modes("2c@2400MHz", clocked, machine(4))


def test_a_clock_that_is_not_there_names_the_nearest_first(clocked: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cpu has no 1600MHz; .*: 1500MHz, 2000MHz, 1000MHz, 2400"
    ):
        choose_modes("2c@1600MHz", clocked, machine(4))


def test_a_processor_that_names_only_the_ends_takes_all_between(tmp_path: Path) -> None:
    add_cpufreq(tmp_path, ((0,), (1,)), ((800_000, 3_000_000),) * 2, is_continuous=True)
    assert names("1c@1234MHz", tmp_path, n_cpus=2) == ["cpu1234MHz_1c"]
    with pytest.raises(UsageError, match="any from 800MHz to 3000MHz is available"):
        choose_modes("1c@3.1GHz", tmp_path, machine(2))
    (tmp_path / "grid.toml").write_text('cpu = { from = "1GHz", to = "2GHz", points = 4 }')
    # 1000, 1333⅓, 1666⅔, 2000: rounded to what a name can tell apart.
    assert sorted(names(str(tmp_path / "grid.toml"), tmp_path, n_cpus=2)) == [
        "cpu1000MHz_2c",
        "cpu1333MHz_2c",
        "cpu1667MHz_2c",
        "cpu2000MHz_2c",
    ]


def test_without_cpufreq_a_cap_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cpu cannot be set.*no clock of the CPU .*virtual machine"
    ):
        choose_modes("2c@2000MHz", tmp_path, machine(4))


@pytest.mark.skipif(ROOT_USER, reason="root may write every file")
def test_a_cap_that_may_not_be_written_says_who_may(clocked: Path) -> None:
    for path in clocked.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq"):
        path.chmod(0o444)
    with pytest.raises(UsageError, match="scaling_max_freq cannot be written; run as root"):
        choose_modes("2c@2000MHz", clocked, machine(4))
    assert names("2c", clocked) == ["2c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu=612MHz", "gpu cannot be set on this machine; a plain machine has no such clock"),
        ("sms=4", "sms cannot be set; multiprocessors are gated by the board's own modes"),
        ("fan=4", "'fan' is not a setting; use gpu, emc, cpu, dla, cores"),
        ("cores=", "'cores=' is not a setting; write key=value"),
        ("cores=2,cores=3", "cores is set twice"),
        ("cores=9", "9 cores cannot be on; use 1 to 4"),
        ("cores=two", "'two' is not a number of cores"),
        ("cpu=2000", "'2000' is not a frequency"),
        ("1c,,2c", "there is an empty mode in"),
        ("2c,cores=3", "'2c' is not a setting"),
    ],
)
def test_a_slip_gets_one_clear_line(text: str, message: str, clocked: Path) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        choose_modes(text, clocked, machine(4))


def test_a_few_of_many_names(tmp_path: Path) -> None:
    # Of 1 to 16: both ends and, on the scale of logarithms, what lies between.
    picked = names("all", tmp_path, n_cpus=16, pick=3)
    assert picked[0] == "1c"
    assert picked[-1] == "16c"
    assert len(picked) == 3
    with pytest.raises(UsageError, match="cannot pick 0 modes"):
        names("all", tmp_path, pick=0)


@given(
    text=st.one_of(
        st.text(),
        st.text(alphabet="cpu0123456789=,;@_MHzcoresall.toml \0"),
        st.from_regex(r"(cpu|cores|gpu|sms|[a-z]+)=[0-9.]{0,4}([kMG]?Hz)?(,|;)?"),
    )
)
def test_any_text_gives_modes_or_our_error(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "any"
    if not root.exists():
        add_cpufreq(root, ((0, 1), (2, 3)), (CPU_STEPS_KHZ[:3], CPU_STEPS_KHZ))
    try:
        modes = choose_modes(text, root, machine(4))
    except MansardError:
        return
    assert modes
    assert len({mode.name for mode in modes}) == len(modes)
