"""Configurations with glued, lost, doubled and broken lines: read right, or the mode is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.core.records import PowerMode
from mansard.device.nvpmodel.config import is_verbose, load_config, parse_config, parse_verbose
from mansard.device.nvpmodel.modes import board_modes
from mansard.device.nvpmodel.sections import Config
from tests.device.nvpmodel_files import CONFIG

WHOLE = parse_config(CONFIG, "x.conf")
HEADER = "< POWER_MODEL ID=7 NAME=MODE_15W >"
_LAST = CONFIG[CONFIG.index(HEADER) : CONFIG.index("< PM_CONFIG")]
THREE = CONFIG + _LAST.replace("ID=7 NAME=MODE_15W", "ID=2 NAME=MODE_30W") + "\n"


def glued(left: str, right: str) -> str:
    """The configuration with one line end lost, whatever empty lines stand there."""
    text, n_changes = re.subn(f"{re.escape(left)}\n+{re.escape(right)}", f"{left}{right}", CONFIG)
    assert n_changes == 1
    return text


@pytest.mark.parametrize(
    "text",
    [
        glued("EMC MAX_FREQ 3199000000\nDLA0_CORE MAX_FREQ 614400000", "< PM_CONFIG"),
        glued("DLA0_CORE MAX_FREQ -1", HEADER),
        glued(HEADER, "CPU_ONLINE CORE_0 1"),
        glued("/sys/kernel/nvpmodel_clk_cap/emc", "< PARAM"),
        CONFIG.replace(f"{HEADER}\n", f"< FAN_CONFIG DEFAULT=quiet >{HEADER}\n"),
        CONFIG.replace(HEADER, HEADER.removesuffix(">")),
        CONFIG.replace(HEADER, f"{HEADER}# the least"),
        CONFIG.replace("GPU MAX_FREQ 408000000\n", "GPU MAX_FREQ 408000000\n" * 2),
    ],
)
def test_what_has_one_meaning_only_is_read_right(text: str) -> None:
    config = parse_config(text, "x.conf")
    assert config == WHOLE


# The mode in doubt, the line that is named, and the words of it.
@pytest.mark.parametrize(
    ("old", "new", "refused", "why"),
    [
        (HEADER, "", "MAXN", r"line 40: is set twice: is the header of another mode missing\?"),
        (HEADER, f"# {HEADER}", "MAXN", "line 40: is set twice"),
        (f"-1\n\n{HEADER}", f"-1 # {HEADER}", "MAXN", "line 38: is set twice"),
        ("GPU MAX_FREQ 408000000\n", "GPU MAX_FREQ 408000000", "MODE_15W", "is not 'PARAMETER"),
        ("GPU MAX_FREQ 408000000", "GPU MAX_FREQ 408#000000", "MODE_15W", "is not 'PARAMETER"),
        ("GPU MAX_FREQ 408000000", "GPU MAX_FREQ # 408000000", "MODE_15W", "is not 'PARAMETER"),
        ("CPU_ONLINE CORE_3 0\n", "", "MODE_15W", "does not say whether CORE_3 is on, as MODE_30W"),
        ("GPU MAX_FREQ 408", "< NOISE >\nGPU MAX_FREQ 408", "MODE_15W", "belongs to no section"),
        ("GPU MAX_FREQ 408", "< PM_CONFIG DEFAULT=7 >\nGPU MAX_FREQ 408", "MODE_15W", "no section"),
    ],
)  # fmt: skip
def test_a_mode_in_doubt_is_refused_by_its_line(old: str, new: str, refused: str, why: str) -> None:
    assert CONFIG.count(old) == 1
    config = parse_config(THREE.replace(old, new, 1), "x.conf")
    assert [one.name for one in config.refused] == [refused]
    assert re.search(why, config.refused[0].why)
    left = {"MODE_30W"} if refused == "MAXN" else {"MAXN", "MODE_30W"}
    assert {one.name for one in config.modes} == left


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        # The memory's cap would be the GPU's path, and its mode the GPU's.
        ("<PARAM TYPE=CLOCK NAME=EMC >\n", "", "GPU, whose definition is damaged"),
        ("< PARAM TYPE=FILE NAME=TPC_POWER_GATING >\n", "", "TPC_POWER_GATING, which no PARAM"),
        ("CORE_3 /sys/devices/system/cpu/cpu3/online\n", "", "CORE_3 of CPU_ONLINE, whose path"),
        ("CORE_2 /sys/devices/system/cpu/cpu2/online\n",
         "CORE_2 /sys/devices/system/cpu/cpu2/online", "CPU_ONLINE, whose definition is damaged"),
        ("< POWER_MODEL ID=0 NAME=MAXN >\n", "", "MODE_15W: it sets DLA0_CORE, whose definition"),
    ],
)  # fmt: skip
def test_damage_of_what_all_modes_set_refuses_the_file(old: str, new: str, why: str) -> None:
    assert CONFIG.count(old) == 1
    with pytest.raises(InputError, match=f"none of its power modes is sure: .*{why}"):
        parse_config(CONFIG.replace(old, new), "x.conf")


def without_cores(*cores: int) -> str:
    """The configuration without any mode's lines of these cores."""
    return re.sub(rf"CPU_ONLINE CORE_[{''.join(map(str, cores))}] [01]\n", "", CONFIG)


@pytest.mark.parametrize(
    ("cores", "named"), [((3,), "CORE_3"), ((1,), "CORE_1"), ((1, 2), "CORE_1 or CORE_2")]
)
def test_a_core_that_no_mode_names_any_more_refuses_the_file(
    cores: tuple[int, ...], named: str
) -> None:
    with pytest.raises(InputError, match=f"MAXN: no mode says whether {named} is on"):
        parse_config(without_cores(*cores), "x.conf")


def test_the_first_core_needs_no_lines() -> None:
    modes = board_modes(parse_config(without_cores(0), "x.conf"), "x.conf").modes
    assert [one.mode.n_cpus for one in modes] == [4, 3]  # it is on in TX2's modes, that omit it


def test_a_text_that_ends_in_the_midst_of_a_mode_refuses_it() -> None:
    text = CONFIG[: CONFIG.index("3199000000") + 5]
    assert [one.name for one in parse_config(text, "x.conf").refused] == ["MODE_15W"]
    assert "ends within it" in parse_config(text, "x.conf").refused[0].why


def test_many_lines_are_read_in_a_time_that_grows_with_their_number() -> None:
    """Half a second; half a minute while each line was compared with all before it."""
    stray = "< PM_CONFIG DEFAULT=0 >\n" + "a b\n" * 20_000
    text = "< POWER_MODEL ID=0 NAME=A >\n" + "".join(f"P A{n} 1\n" for n in range(15_000)) + stray
    (mode,) = parse_config(text, "x.conf").modes
    assert len(mode.settings) == 15_000


LINES = CONFIG.splitlines()
PLACES = st.integers(0, 10_000)


def damaged(lines: list[str], changes: list[tuple[str, int]]) -> str:
    """Lines glued to the next (with and without a space), lost, doubled, moved or cut by a
    comment; a bracket lost."""
    lines = list(lines)
    for kind, anywhere in changes:
        place = anywhere % (len(lines) - 1)
        line = lines[place]
        if kind in {"glue", "glue with a space", "glue with a comment"}:
            between = {"glue": "", "glue with a space": " "}.get(kind, " # ")
            lines[place : place + 2] = [f"{line}{between}{lines[place + 1]}"]
        elif kind == "drop":
            del lines[place]
        elif kind == "double":
            lines.insert(place, line)
        elif kind == "copy elsewhere":
            lines.insert(anywhere // 7 % len(lines), line)
        elif kind == "comment":
            at = anywhere % (len(line) + 1)
            lines[place] = f"{line[:at]}#{line[at:]}"
        else:
            lines[place] = line.replace(">", "")
    return "\n".join([*lines, ""])


KINDS = st.sampled_from(
    [
        *("glue", "glue with a space", "glue with a comment", "drop", "double"),
        *("comment", "bracket"),
    ]
)
# A line that was lost and another that stands in its place are a new, whole file: not both at once.
CHANGES = st.one_of(
    st.lists(st.tuples(KINDS, PLACES), min_size=1, max_size=3),
    st.tuples(st.just("copy elsewhere"), PLACES).map(lambda one: [one]),
)


def check_law(text: str, whole: Config) -> None:
    """Each mode that is accepted has what the whole file's of its number and name has: clocks
    equal or not known, the same cores, the same multiprocessors or not known."""
    read = parse_verbose if is_verbose(text) else parse_config
    try:
        config = read(text, "x")
    except InputError:
        return
    before = {(one.id, one.mode.name): one.mode for one in board_modes(whole, "x").modes}
    for one in board_modes(config, "x").modes:
        original = before[one.id, one.mode.name]
        for field in ("cpu_hz", "gpu_hz", "memory_hz", "dla_hz", "n_sms"):
            found = getattr(one.mode, field)
            assert found in {None, getattr(original, field)}, (field, one.mode)
            if found is None and getattr(original, field) is not None:
                assert one.mode.unknown[field] != "uncapped", (field, one.mode)
        assert one.mode.n_cpus == original.n_cpus
        of_cpu = cpu_clocks(original)
        for cpu, hz in cpu_clocks(one.mode).items():
            assert hz in {None, of_cpu[cpu]}


def cpu_clocks(mode: PowerMode) -> dict[int, float | None]:
    return {cpu: cluster.max_hz for cluster in mode.clusters for cpu in cluster.cpus}


@given(CHANGES)
@settings(max_examples=300)
def test_no_damage_gives_a_mode_the_clocks_of_another(changes: list[tuple[str, int]]) -> None:
    check_law(damaged(LINES, changes), WHOLE)


@pytest.mark.shared_data
@given(PLACES, CHANGES)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_of_a_recorded_file_gives_a_mode_the_clocks_of_another(
    shared_data: Path, which: int, changes: list[tuple[str, int]]
) -> None:
    files = sorted((shared_data / "nvpmodel").iterdir())
    path = files[which % len(files)]
    check_law(damaged(path.read_text().splitlines(), changes), load_config(path))
