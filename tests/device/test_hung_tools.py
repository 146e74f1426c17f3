"""Tools of a board that hang or flood: each call ends, and all of them together within a minute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import DeviceError
from mansard.device.nvpmodel.tool import query, set_mode
from mansard.device.system import Patience, run_tool
from tests.device.nvpmodel_files import make_board, write_tool

# The limits that the product asks for: of a query and of a change of mode.
WANTED = st.lists(st.sampled_from([15.0, 60.0]), min_size=1, max_size=12)


@given(WANTED)
def test_all_hung_calls_of_a_tool_end_within_a_minute(wanted: list[float]) -> None:
    patience = Patience()
    total_s = 0.0
    for limit_s in wanted:
        spent_s = patience.limit_s("nvpmodel", limit_s)
        assert 1.0 <= spent_s <= limit_s
        patience.note_hung("nvpmodel", spent_s)
        total_s += spent_s
    # 36 s and a second for each call after that: 24 + 8 + 2.7 + 1 + 1 + ...
    assert total_s <= 36 + len(wanted) <= 48
    assert patience.limit_s("jetson_clocks", 30.0) == pytest.approx(24.0)


def test_a_tool_that_answers_again_has_its_time_again() -> None:
    patience = Patience()
    patience.note_hung("nvpmodel", 30.0)
    assert patience.limit_s("nvpmodel", 60.0) == pytest.approx(4.0)  # 2/3 of 36 - 30
    patience.note_answer("nvpmodel")
    assert patience.limit_s("nvpmodel", 60.0) == pytest.approx(24.0)


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
