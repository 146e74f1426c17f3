"""Laws over any text: a stream reads as line by line, nothing is lost, nothing else is raised."""

from __future__ import annotations

import random
import re

from hypothesis import example, given
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.device.tegrastats import Parser, parse_line, stream
from mansard.device.tegrastats.columns import Columns, line_document, row
from mansard.device.tegrastats.sessions import time_of
from tests.device.tegrastats_lines import LINES
from tests.device.tegrastats_render import render

TOKENS = sorted({token for line in LINES.values() for token in line.split()})
JUNK = ["FUTURE", "1.2V", "[", "]", "@", "12%", "a/b", "-", "…", "off", "[1%,", "2%]", "\0", "é"]

any_line = st.one_of(
    st.text(),
    st.binary().map(lambda data: data.decode("utf-8", "replace")),
    st.sampled_from(sorted(LINES.values())),
    st.lists(st.sampled_from(TOKENS + JUNK), max_size=30).map(" ".join),
)


def damaged(line: str, seed: int) -> str:
    """``line`` with a few characters or tokens cut out, doubled or replaced."""
    dice = random.Random(seed)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(line) + 1)
        to = min(len(line), at + dice.randrange(1, 12))
        piece = dice.choice(["", line[at:to] * 2, dice.choice(TOKENS), dice.choice(JUNK), "9" * 30])
        line = line[:at] + piece + line[to:]
    return line


real_looking = st.builds(damaged, st.sampled_from(sorted(LINES.values())), st.integers(0, 1 << 32))


@given(st.lists(any_line | real_looking, max_size=12))
def test_a_stream_reads_every_line_as_if_it_were_alone(lines: list[str]) -> None:
    alone = [sample for line in lines if (sample := Parser().read(line)) is not None]
    assert list(stream(lines)) == alone


@given(any_line | real_looking)
def test_any_text_is_a_sample_or_our_error(text: str) -> None:
    try:
        sample = parse_line(text)
    except InputError:
        return
    Columns().add(sample)
    assert row(sample, "log", None)["log"] == "log"
    assert line_document(sample, "log", 1.5)["time_s"] == 1.5
    time_of(text)


@given(real_looking)
@example("RAM 1700/3956MB (lfb 100x4MB) CPU [7%@1224,off@1224] EMC_FREQ 0%")
def test_every_number_of_a_damaged_line_comes_back(text: str) -> None:
    sample = Parser().read(text)
    if sample is not None:
        rendered = render(sample)
        assert numbers(rendered) == numbers(text)
        assert parse_line(rendered) == sample


def numbers(text: str) -> list[str]:
    """The numbers of a line without zeros that say nothing."""
    found = re.findall(r"\d+(?:\.\d+)?", text)
    return [re.sub(r"\.0*$|(\.\d*?)0+$", r"\1", each).lstrip("0") for each in found]


@given(st.text())
def test_no_prefix_makes_a_time_fail(prefix: str) -> None:
    moment = time_of(prefix)
    assert moment is None or moment.resolution_s <= 1
