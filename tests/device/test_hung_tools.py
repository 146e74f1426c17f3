"""Tools of a board that hang or flood: each call ends, and all of them together within a minute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import DeviceError
from mansard.device.nvpmodel.tool import query, set_mode
from mansard.device.system import patience_s, run_tool
from tests.device.nvpmodel_files import make_board, write_tool

TOOLS = ("nvpmodel", "jetson_clocks")
# Calls, each with the limit that the product asks for: of a query and of a change of mode.
CALLS = st.lists(
    st.tuples(st.sampled_from(TOOLS), st.sampled_from([15.0, 30.0, 60.0])), max_size=12
)


def wait_for_all(calls: list[tuple[str, float]]) -> float:
    """How long these calls take in all, if none is answered."""
    hung_s: dict[str, float] = {}
    for tool, wanted_s in calls:
        spent_s = patience_s(tool, wanted_s, hung_s)
        assert 1.0 <= spent_s <= wanted_s
        hung_s[tool] = hung_s.get(tool, 0.0) + spent_s
    return sum(hung_s.values())


@given(CALLS)
def test_hung_calls_of_all_tools_end_within_a_minute(calls: list[tuple[str, float]]) -> None:
    # 30 s, 4 s for the tool that is called last, and a second for each call after that
    assert wait_for_all(calls) <= 34 + len(calls) <= 46


def test_a_tool_that_hangs_after_another_gets_what_is_left() -> None:
    # two thirds of 30 s, of the 10 s that are left, of 3.3 s
    calls = [("nvpmodel", 60.0), ("jetson_clocks", 30.0), ("nvpmodel", 15.0)]
    assert wait_for_all(calls) == pytest.approx(20 + 20 / 3 + 20 / 9)
    # one that did not hang yet has 4 s, whatever the other took
    assert patience_s("jetson_clocks", 30.0, {"nvpmodel": 40.0}) == 4.0
    assert patience_s("nvpmodel", 30.0, {"nvpmodel": 40.0}) == 1.0


BODIES = {
    "deaf": "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n",
    "child": f"import subprocess\nsubprocess.run([{sys.executable!r}, '-c', "
    "'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'])\n",
}


@pytest.mark.parametrize("kind", sorted(BODIES))
def test_a_hung_nvpmodel_is_one_line(tmp_path: Path, kind: str) -> None:
    root = make_board(tmp_path)
    write_tool(root, BODIES[kind])
    with pytest.raises(DeviceError, match=r"did not answer within 0\.5 s and was ended; run it by"):
        set_mode(root, 0, timeout_s=0.5)
    assert query(root, timeout_s=0.5).id == 7  # its notes tell


def test_a_child_that_keeps_the_answer_open_does_not_hold_it_back(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    tool = root / "usr/sbin/nvpmodel"
    sleeper = f"import subprocess\nsubprocess.Popen([{sys.executable!r}, '-c', "
    body = tool.read_text().partition("\n")[2]
    write_tool(root, f"{sleeper}'import time; time.sleep(600)'])\n{body}")
    assert query(root, timeout_s=300).name == "15W"


def test_a_tool_that_floods_is_one_line(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    tool = write_tool(root, "import os\nwhile True: os.write(1, b'NVPM ERROR: oh' * 9999)")
    with pytest.raises(DeviceError, match="printed more than 1,048,576 bytes and was ended"):
        run_tool([tool, "-q"], timeout_s=60)
    assert query(root).id == 7
