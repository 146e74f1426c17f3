"""Asking and setting through a tool that stands in root/usr/sbin, as the board's own does."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import (
    ModeOutcome,
    Query,
    parse_query,
    parse_status,
    probe,
    query,
    reboot_modes,
    set_mode,
)
from tests.device.nvpmodel_files import CONFIG, make_board, write, write_tool

ERRORS = (
    "NVPM ERROR: Error opening /sys/devices/system/cpu/cpu6/online: 2\n"
    "NVPM ERROR: failed to read PARAM CPU_ONLINE: ARG CORE_6: PATH /sys/x\n"
)


def mode_now(root: Path) -> int | None:
    return parse_status((root / "var/lib/nvpmodel/status").read_text())


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("NV Power Mode: MAXN\n0\n", Query("MAXN", 0, ())),
        ("NV Power Mode: MODE_30W\r\n2\r\n", Query("30W", 2, ())),
        ("NV Fan Mode:quiet\nNV Power Mode: MODE_15W\n7\n", Query("15W", 7, ())),
        ("NVPM WARN: fan mode is not set!\nNV Power Mode: 25W\n1\n",
         Query("25W", 1, ("NVPM WARN: fan mode is not set!",))),
        ("NV Power Mode: 25W\nNVPM ERROR: x\n1\n", Query("25W", 1, ("NVPM ERROR: x",))),
        ("NV Power Mode: 25W\n", Query("25W", None, ())),
        ("NVPM VERB: Current mode: NV Power Mode: MAXN\n0\n", Query("MAXN", 0, ())),
        ("NV Power Mode: MAXP_CORE_ARM (mode 3)\n", Query("MAXP_CORE_ARM", 3, ())),
        ("NVPM ERROR: Error opening /var/lib/nvpmodel/status: 13\n", None),
        ("NV Power Mode:\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_the_tool_answers(output: str, expected: Query | None) -> None:
    assert parse_query(output) == expected


@pytest.mark.shared_data
def test_a_recorded_answer_with_complaints(shared_data: Path) -> None:
    text = (shared_data / "sysfs/obiedeh+bench2field__orin_nvpmodel_q_with_errors.txt").read_text()
    answer = parse_query(text)
    assert answer is not None
    assert (answer.name, answer.id) == ("MAXN_SUPER", 0)
    assert len(answer.complaints) == text.count("NVPM ERROR") == 12


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("pmode:0002", 2),
        ("pmode:0000 fmode:quiet", 0),
        ("fmode:cool pmode:0010\n", 10),
        ("pmode:", None),
        ("fmode:quiet", None),
        ("xpmode:0001", None),
    ],
)
def test_the_tools_own_notes(text: str, number: int | None) -> None:
    assert parse_status(text) == number


def test_the_present_mode_is_asked_for(tmp_path: Path) -> None:
    root = make_board(tmp_path, before="NVPM WARN: oh\n", after=ERRORS)
    answer = query(root)
    assert (answer.name, answer.id) == ("15W", 7)
    assert len(answer.complaints) == 3


@pytest.mark.parametrize("tool", ["missing", "not executable", "refuses", "hangs", "no program"])
def test_without_the_tools_answer_its_notes_are_read(tmp_path: Path, tool: str) -> None:
    root = make_board(tmp_path, present=0)
    path = root / "usr/sbin/nvpmodel"
    if tool == "missing":
        path.unlink()
    elif tool == "not executable":
        path.chmod(0o600)
    elif tool == "no program":
        path.write_bytes(b"\0\1\2")
    else:
        wait = "import time; time.sleep(60)" if tool == "hangs" else ""
        write_tool(root, f"{wait}\nraise SystemExit('NVPM ERROR: Permission denied')")
    answer = query(root, timeout_s=1.0 if tool == "hangs" else 30.0)
    assert (answer.name, answer.id) == ("MAXN", 0)
    assert len(answer.complaints) == 2


@pytest.mark.parametrize("status", ["", "pmode:0005", "junk"])
def test_where_nothing_tells_the_mode_there_is_an_error(tmp_path: Path, status: str) -> None:
    root = make_board(tmp_path)
    (root / "usr/sbin/nvpmodel").unlink()
    write(root, "var/lib/nvpmodel/status", status)
    with pytest.raises(DeviceError, match="present power mode cannot be found out"):
        query(root)


def test_a_mode_is_set_and_asked_for_again(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    assert set_mode(root, 0).kind == "set"
    assert mode_now(root) == 0
    assert query(root).name == "MAXN"


def test_a_mode_that_needs_a_reboot_is_declined_and_nothing_changes(tmp_path: Path) -> None:
    root = make_board(tmp_path, reboots=(0,))
    outcome = set_mode(root, 0)
    assert outcome.kind == "reboot"
    assert "Reboot required" in outcome.text
    assert "optMask is 1" in outcome.text
    assert (root / "answers").read_text() == "no\n"
    assert not (root / "rebooted").exists()
    assert mode_now(root) == 7


def test_a_refusal_carries_the_tools_words(tmp_path: Path) -> None:
    root = make_board(tmp_path, refused=(0,))
    assert set_mode(root, 0) == ModeOutcome("refused", "NVPM ERROR: failed to set power mode!")


def test_a_tool_that_only_says_it_did_is_not_believed(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write_tool(root, "import sys\nif '-q' in sys.argv: print('NV Power Mode: MODE_15W\\n7')")
    assert set_mode(root, 0).kind == "refused"
    assert set_mode(root, 7).kind == "set"


def test_a_tool_that_names_the_mode_without_its_number(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write_tool(root, "print('NV Power Mode: MAXN')")
    assert set_mode(root, 0).kind == "set"
    assert set_mode(root, 7).kind == "refused"


ENDLESS = """
import sys
while True:
    print("NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:", flush=True)
    if sys.stdin.readline() == "":
        import time
        time.sleep(60)
"""


def test_a_tool_that_never_ends_is_stopped(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write_tool(root, ENDLESS)
    with pytest.raises(DeviceError, match="did not answer within 1 s"):
        set_mode(root, 0, timeout_s=1.0)


def test_a_board_without_the_tool_cannot_be_set(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no nvpmodel"):
        set_mode(tmp_path, 0)


def test_other_masks_than_the_kernels_may_need_a_reboot(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    modes = read_modes(root)
    # Without a mask to read, the present mode's own is taken: 248.
    assert list(reboot_modes(root, modes, "15W")) == ["MAXN"]
    assert reboot_modes(root, modes, "15W")["MAXN"].endswith("TPC_PG_MASK 248 → 0")
    # With nothing known of the present every mode that gates may need one.
    assert list(reboot_modes(root, modes, None)) == ["MAXN", "15W"]
    # What the kernel says wins; the newer path comes first.
    write(root, "sys/devices/gpu.0/tpc_pg_mask", "248\n")
    write(root, "sys/devices/platform/gpu.0/tpc_pg_mask", "0\n")
    assert list(reboot_modes(root, modes, None)) == ["15W"]


def test_one_mask_in_other_digits_is_no_change(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write(root, "etc/nvpmodel.conf", CONFIG.replace("PG_MASK 0\n", "PG_MASK 0xF8\n"))
    assert dict(reboot_modes(root, read_modes(root), "15W")) == {}


def test_probing_tries_every_mode_and_puts_the_present_one_back(tmp_path: Path) -> None:
    root = make_board(tmp_path, reboots=(0,))
    outcomes = probe(root, read_modes(root).modes)
    assert {name: outcome.kind for name, outcome in outcomes.items()} == {
        "MAXN": "reboot",
        "15W": "set",
    }
    assert mode_now(root) == 7


def test_probing_puts_the_present_mode_back_even_if_it_fails(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    asked: list[int] = []

    def stumble(place: Path, number: int) -> ModeOutcome:
        asked.append(number)
        if len(asked) == 2:
            raise DeviceError("stumbled")
        return set_mode(place, number)

    with pytest.raises(DeviceError, match="stumbled"):
        probe(root, read_modes(root).modes, set_one=stumble)
    assert asked == [0, 7, 7]
    assert mode_now(root) == 7


def test_probing_says_where_the_present_mode_does_not_come_back(tmp_path: Path) -> None:
    root = make_board(tmp_path, refused=(7,))
    with pytest.raises(DeviceError, match=r"15W could not be restored.*sudo nvpmodel -m 7"):
        probe(root, read_modes(root).modes)


def test_probing_no_mode_touches_nothing(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write_tool(root, "raise SystemExit('asked')")
    assert probe(root, ()) == {}


def test_a_present_mode_without_number_stops_probing(tmp_path: Path) -> None:
    root = make_board(tmp_path)
    write_tool(root, "print('NV Power Mode: OTHER')")
    with pytest.raises(DeviceError, match="number of the present mode OTHER is unknown"):
        probe(root, read_modes(root).modes)
