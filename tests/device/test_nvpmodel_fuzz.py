"""Whatever a configuration, a dump or an answer holds: values, or an error of ours."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MansardError
from mansard.core.hardware import MODULES
from mansard.device.nvpmodel.caps import parse_integer
from mansard.device.nvpmodel.config import parse_config, parse_verbose
from mansard.device.nvpmodel.modes import board_modes
from mansard.device.nvpmodel.sections import Config
from mansard.device.nvpmodel.tool import parse_query, parse_status, reboot_modes
from mansard.device.power_modes.listing import find_highest, predict, resolve
from tests.device.nvpmodel_files import CONFIG

LINES = CONFIG.splitlines()
DUMP = [f"NVPM VERB: {line.strip('<> ')}" for line in LINES]
WORDS = st.sampled_from(
    [
        "<", ">", "< PARAM", "TYPE=CLOCK", "TYPE=HWMON", "NAME=GPU", "NAME=CPU_A78_0", "ID=0",
        "ID=7", "NAME=MODE_15W", "POWER_MODEL", "PM_CONFIG", "DEFAULT=7", "DEFAULT=X(7)", "#",
        "MAX_FREQ", "GPU", "EMC", "CPU_ONLINE", "CORE_1", "CORE_99999", "TPC_PG_MASK",
        "TPC_POWER_GATING", "-1", "0", "0x", "0xff", "1e9", "NaN", "inf", "9" * 30, "٣", "²",
        "/etc/shadow", "/sys/../etc/shadow", "/sys/devices/system/cpu/cpu3/online",
        "/sys/devices/system/cpu/cpu999/cpufreq/scaling_max_freq", "NVPM VERB:", "\0", "\x1b[2J",
        "\u202e", "\ufeff",
    ]
)  # fmt: skip
GLUE = st.sampled_from([" ", "\t", "\n", "\r", "\r\n", "", "\u2028"])
SOUP = st.lists(st.tuples(WORDS, GLUE), max_size=40).map(
    lambda parts: "".join(word + glue for word, glue in parts)
)


@st.composite
def mutated(draw: st.DrawFn, lines: list[str]) -> str:
    """A good text with lines dropped, doubled, moved, cut or replaced by soup."""
    changed = list(lines)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(changed) - 1))
        kind = draw(st.sampled_from(["drop", "double", "move", "cut", "soup", "letter"]))
        line = changed[place]
        if kind == "drop":
            changed[place] = ""
        elif kind == "double":
            changed.insert(place, line)
        elif kind == "move":
            changed.insert(draw(st.integers(0, len(changed) - 1)), line)
        elif kind == "cut":
            changed[place] = line[: draw(st.integers(0, len(line)))]
        elif kind == "soup":
            changed.insert(place, draw(SOUP))
        else:
            at = draw(st.integers(0, len(line)))
            changed[place] = line[:at] + draw(st.characters()) + line[at:]
    text = "\n".join(changed)
    return text[: draw(st.integers(len(text) // 2, len(text)))]


def use(config: Config) -> None:
    """Everything that is made of a configuration; records refuse what does not fit in them."""
    for module in (None, MODULES["p3701-0005"], MODULES["p3834-0008"]):
        modes = board_modes(config, "x.conf", None, module)
        assert len(modes.modes) == len(config.modes) > 0
        highest = find_highest(None, module)
        for one in modes.modes:
            assert modes.find(one.mode.name) == modes.by_id(one.id) == one
            assert one.mode.n_sms is None or one.mode.n_sms >= 0
            predict(resolve(one.mode, highest).mode, module, module)
        reboot_modes(Path("/no/such/folder"), modes, modes.default)


@given(st.one_of(st.text(max_size=300), SOUP, mutated(LINES)))
def test_any_text_is_a_configuration_or_an_error_of_ours(text: str) -> None:
    with suppress(MansardError):
        use(parse_config(text, "x.conf"))


@given(st.one_of(st.text(max_size=300), SOUP, mutated(DUMP)))
def test_any_text_is_a_dump_or_an_error_of_ours(text: str) -> None:
    with suppress(MansardError):
        use(parse_verbose(text, "x.txt"))


@given(st.one_of(st.text(max_size=300), SOUP))
def test_any_answer_of_the_tool_is_read_or_is_none(text: str) -> None:
    answer = parse_query(text)
    assert answer is None or answer.name
    number = parse_status(text)
    assert number is None or 0 <= number < 10**6


@given(st.text(max_size=40))
def test_a_number_is_read_as_python_reads_it_or_not_at_all(text: str) -> None:
    number = parse_integer(text)
    assert number is None or number == int(text, 16 if "x" in text.lower() else 10)


@given(st.integers(0, 2**64 - 1))
def test_decimal_and_hexadecimal_masks_are_the_same(mask: int) -> None:
    assert parse_integer(str(mask)) == parse_integer(hex(mask)) == mask
