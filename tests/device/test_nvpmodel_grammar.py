"""The grammar of nvpmodel.conf and of the tool's dump, on small texts."""

from __future__ import annotations

import pytest

from mansard.core.errors import InputError
from mansard.device.nvpmodel.config import is_verbose, parse_config, parse_verbose
from mansard.device.nvpmodel.sections import Param, Setting
from tests.device.nvpmodel_files import CONFIG

MODE = "< POWER_MODEL ID=0 NAME=A >\n"
TAIL = "< PM_CONFIG DEFAULT=0 >\n"


def test_a_configuration_has_parameters_modes_and_a_default() -> None:
    config = parse_config(CONFIG, "x.conf")
    assert [(table.id, table.name) for table in config.modes] == [(0, "MAXN"), (7, "MODE_15W")]
    assert config.default_id == 7
    assert config.ignored == ()
    gating = config.param("TPC_POWER_GATING")
    assert gating == Param(
        "FILE",
        "TPC_POWER_GATING",
        {
            "TPC_PG_MASK": "/sys/devices/gpu.0/tpc_pg_mask",
            "TPC_PG_MASK_KNEXT": "/sys/devices/platform/gpu.0/tpc_pg_mask",
        },
    )
    assert config.modes[1].settings[3:5] == (
        Setting("CPU_ONLINE", "CORE_3", "0"),
        Setting("TPC_POWER_GATING", "TPC_PG_MASK", "248"),
    )


@pytest.mark.parametrize(
    "header",
    [
        "<POWER_MODEL ID=3 NAME=X>",
        "<   POWER_MODEL   ID = 3   NAME = X   >",
        "\t<POWER_MODEL\tNAME=X\tID=3\t>  # the fastest",
        "< POWER_MODEL ID=3 NAME=X",
    ],
)
def test_spaces_tabs_order_and_comments_do_not_matter(header: str) -> None:
    config = parse_config(f"{header}\n GPU\t MAX_FREQ   1 # why\n", "x.conf")
    assert [(one.id, one.name) for one in config.modes] == [(3, "X")]
    assert config.modes[0].settings == (Setting("GPU", "MAX_FREQ", "1"),)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_read_alike(end: str) -> None:
    assert parse_config(CONFIG.replace("\n", end), "x") == parse_config(CONFIG, "x")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert parse_config("\ufeff" + CONFIG, "x") == parse_config(CONFIG, "x")


def test_the_folder_of_an_hwmon_argument_becomes_a_pattern() -> None:
    text = f"< PARAM TYPE=HWMON NAME=LIMIT >\nWARN /sys/devices/i2c-7/hwmon curr1_max\n{MODE}"
    config = parse_config(text, "x.conf")
    assert config.params[0].arguments == {"WARN": "/sys/devices/i2c-7/hwmon/*/curr1_max"}


def test_the_fans_section_is_passed_over() -> None:
    config = parse_config(f"{MODE}{TAIL}< FAN_CONFIG DEFAULT=quiet >\nFAN x\n", "x.conf")
    assert config.ignored == ()
    assert config.default_id == 0


def test_lines_that_are_none_are_kept_with_their_numbers() -> None:
    text = (
        "stray words\n"  # 1
        "< PARAM TYPE=VOLTAGE NAME=X >\n"  # 2: no such type, takes line 3 along
        "ARG /sys/x\n"
        f"{MODE}"  # 4
        "GPU MAX_FREQ\n"  # 5: and with it the mode is in doubt
        "GPU MAX_FREQ 1 2\n"  # 6
        "< POWER_MODEL ID=1 NAME=B >\n"  # 7: the only good one
        "GPU MIN_FREQ 5\n"
        "< /POWER_MODEL >\n"  # 9: no header
        f"{TAIL}"
    )
    config = parse_config(text, "x.conf")
    numbers = [int(line.split()[1].rstrip(":")) for line in config.ignored if line[0] == "l"]
    assert numbers == [1, 2, 3, 5, 6, 9]
    assert [one.settings for one in config.modes] == [(Setting("GPU", "MIN_FREQ", "5"),)]
    assert [(one.id, one.name) for one in config.refused] == [(0, "A")]
    assert "line 5: is not 'PARAMETER ARGUMENT value'" in config.refused[0].why


@pytest.mark.parametrize(
    "header",
    [
        "< POWER_MODEL ID=1 >",
        "< POWER_MODEL NAME=B >",
        "< POWER_MODEL ID=-1 NAME=B >",
        "< POWER_MODEL ID=one NAME=B >",
        "< POWER_MODEL ID=1 NAME=../B >",
        "< POWER_MODEL ID=1 NAME=\x1b[2J >",
        "< POWER_MODEL ID=99999999999999999999 NAME=B >",
    ],
)
def test_a_mode_without_usable_number_and_name_is_left_out(header: str) -> None:
    config = parse_config(f"{header}\nGPU MAX_FREQ 5\n{MODE}GPU MAX_FREQ 6\n{TAIL}", "x.conf")
    assert [table.name for table in config.modes] == ["A"]
    assert config.modes[0].settings == (Setting("GPU", "MAX_FREQ", "6"),)
    assert len(config.ignored) == 2


@pytest.mark.parametrize(
    "other", ["< POWER_MODEL ID=0 NAME=B >", "< POWER_MODEL ID=1 NAME=A >",
              "< POWER_MODEL ID=1 NAME=MODE_A >", "< POWER_MODEL ID=1 NAME=a >"]
)  # fmt: skip
def test_two_modes_of_one_number_or_name_are_an_error(other: str) -> None:
    with pytest.raises(InputError, match=r"x\.conf: has two modes .* line 1, .* line 2"):
        parse_config(f"{MODE}{other}\n", "x.conf")


def test_a_parameter_that_is_defined_twice_has_the_arguments_of_both() -> None:
    text = (
        "< PARAM TYPE=CLOCK NAME=GPU >\nMAX_FREQ /sys/a\nMIN_FREQ /sys/b\n"
        f"< PARAM TYPE=CLOCK NAME=GPU >\nMAX_FREQ /sys/a\nTABLE /sys/c\n{MODE}"
    )
    config = parse_config(text, "x.conf")
    paths = {"MAX_FREQ": "/sys/a", "MIN_FREQ": "/sys/b", "TABLE": "/sys/c"}
    assert config.params == (Param("CLOCK", "GPU", paths),)
    assert config.ignored[0].startswith("no PM_CONFIG")


def test_of_an_argument_with_two_paths_no_mode_that_sets_it_is_sure() -> None:
    text = (
        "< PARAM TYPE=CLOCK NAME=GPU >\nMAX_FREQ /sys/a\n"
        f"< PARAM TYPE=CLOCK NAME=GPU >\nMAX_FREQ /sys/c\n{MODE}GPU MAX_FREQ 5\n"
    )
    with pytest.raises(InputError, match=r"definition is damaged: line 4: has another path above"):
        parse_config(text, "x.conf")


def test_a_setting_of_two_values_leaves_no_sure_mode() -> None:
    with pytest.raises(InputError, match="none of its power modes is sure: A: line 3: is set twi"):
        parse_config(f"{MODE}GPU MAX_FREQ 5\nGPU MAX_FREQ 6\n", "x.conf")


def test_a_text_without_default_says_that_it_may_be_cut() -> None:
    config = parse_config(MODE, "x.conf")
    assert config.default_id is None
    assert "cut short" in config.ignored[0]


def test_a_default_that_is_no_mode_is_none() -> None:
    config = parse_config(f"{MODE}< PM_CONFIG DEFAULT=4 >\n", "x.conf")
    assert config.default_id is None
    assert "no mode 4" in config.ignored[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds no power mode"),
        ("# only a comment\n", "holds no power mode"),
        ("\x7fELF\0\0\0" + MODE, "binary"),
        ("#" * 300_000 + "\n" + MODE, "characters"),
        ("".join(f"< POWER_MODEL ID={n} NAME=M{n} >\n" for n in range(129)), "more than 128"),
        ("".join(f"< PARAM TYPE=FILE NAME=M{n} >\n" for n in range(257)), "more than 256"),
    ],
)
def test_what_is_no_configuration_is_an_error(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        parse_config(text, "board.conf")
    assert caught.value.where == "board.conf"


@pytest.mark.parametrize("line", ["<POWER_MODEL " + "a" * 250_000 + " >", "a b " + "c" * 250_000])
def test_a_very_long_line_is_none_and_takes_no_time(line: str) -> None:
    text = f"< POWER_MODEL ID=1 NAME=B >\nGPU MAX_FREQ 6\n{MODE}{line}\nGPU MAX_FREQ 5\n{TAIL}"
    config = parse_config(text, "x.conf")
    # What follows a header that cannot be read is not the mode's before it.
    assert [one.name for one in config.modes][:1] == ["B"]
    assert [len(one.settings) for one in config.modes] == [1, 0][: 2 if line[0] == "<" else 1]
    assert all(len(one) < 200 for one in config.ignored)


def test_of_very_many_bad_lines_the_first_are_kept_and_the_others_counted() -> None:
    config = parse_config("junk\n" * 300 + MODE + TAIL, "x.conf")
    assert len(config.ignored) == 201
    assert config.ignored[-1] == "and 100 lines more"


def as_dump(text: str) -> str:
    """The words of a configuration as ``nvpmodel -p --verbose`` writes them."""
    lines = ["Config file: /etc/nvpmodel.conf", "PM_CONFIG: DEFAULT=MODE_15W(7)"]
    for raw in text.splitlines():
        line = raw.strip("<> ")
        if not line.startswith("PM_CONFIG"):
            lines.append(line.replace("POWER_MODEL ", "POWER_MODEL: "))
    return "".join(f"NVPM VERB: {line}\n" for line in lines)


def test_a_dump_holds_the_same_as_the_file() -> None:
    dump = as_dump(CONFIG)
    assert is_verbose(dump)
    assert not is_verbose(CONFIG)
    assert parse_verbose(dump, "x") == parse_config(CONFIG, "x")


def test_complaints_in_a_dump_are_no_settings() -> None:
    dump = as_dump(CONFIG).replace(
        "NVPM VERB: EMC MAX_FREQ 0\n", "NVPM VERB: EMC MAX_FREQ 0\nNVPM ERROR: oh\n"
    )
    config = parse_verbose(dump, "x")
    assert config.modes == parse_config(CONFIG, "x").modes
    assert len(config.ignored) == 1
    assert "NVPM ERROR: oh" in config.ignored[0]


def test_a_prompt_behind_a_dump_is_no_damage() -> None:
    config = parse_verbose(f"$ sudo nvpmodel -p --verbose\n{as_dump(CONFIG)}user@board:~$ \n", "x")
    assert config.modes == parse_config(CONFIG, "x").modes
    assert config.refused == ()


@pytest.mark.parametrize("header", ["POWER_MODEL: ID NAME", "POWER_MODEL:", "PARAM GPU: ARG"])
def test_a_broken_header_in_a_dump_takes_its_lines_along(header: str) -> None:
    dump = f"NVPM VERB: POWER_MODEL: ID=0 NAME=A\nNVPM VERB: {header}\nNVPM VERB: GPU MAX_FREQ 5\n"
    config = parse_verbose(dump, "x")
    assert config.modes[0].settings == ()
    assert len(config.ignored) == 3  # the header, its line, and no default


def test_a_dump_that_ends_early_has_the_modes_up_to_there() -> None:
    dump = as_dump(CONFIG)
    cut = dump[: dump.index("NVPM VERB: GPU MAX_FREQ 408")]
    config = parse_verbose(cut, "x")
    assert [table.id for table in config.modes] == [0, 7]
    assert config.modes[1].value("GPU", "MAX_FREQ") is None
    assert config.modes[1].value("CPU_A78_0", "MAX_FREQ") == "1113600"
