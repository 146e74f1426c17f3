"""The checks of doctor on simulated boards: healthy, throttled, switched off, full of junk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api.checks.containers import check_counters, check_engines
from mansard.device.identity import identify
from mansard.simulator import create_board, running, set_fault
from tests.inference import stand_in
from tests.inference.ncu_stand_in import VERSION, write_ncu

# What these find depends on the computer that runs the tests, not on the board.
OF_THE_HOST = {
    "Python",
    "load",
    "disk",
    "kernels",
    "ort",
    "tensorrt",
    "trtexec",
    "ncu",
    "pinned threads",
    "GPU processes",
    "containers",
    "container image",
    "image disk",
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of state of the test's own: this computer may have a sweep of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("name", ["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"])
def test_doctor_finds_no_fault_on_a_healthy_board(name: str, tmp_path: Path) -> None:
    with running(create_board(name, tmp_path)) as root:
        checks = api.doctor(root)
    assert [check for check in checks if check.fix and check.name not in OF_THE_HOST] == []


def test_doctor_on_a_board_that_throttles_and_wants_current(board: Path) -> None:
    set_fault(board, "over_current", 3)
    set_fault(board, "throttle", True)
    seen: dict[str, str] = {}
    for _ in range(100):  # the daemon takes a moment
        seen = {check.name: check.detail for check in api.doctor(board) if check.fix}
        if {"throttling", "over-current"} <= seen.keys():
            break
    assert "slows the board down now" in seen["throttling"]
    assert "3 events since the board was started" in seen["over-current"]


def test_doctor_on_a_board_that_is_switched_off(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    for current in root.glob("sys/devices/**/curr[1-3]_input"):
        current.write_text("0\n")
    checks = {check.name: check for check in api.doctor(root)}
    assert checks["total power"].status == "warning"
    assert "reads 0.000 W, which no machine draws" in checks["total power"].detail


JUNK = [b"\x1b[2J\x07junk\xff\0", b"9" * 100_000, b"", b"-1\n", b"nan nan nan\n" * 50]


@pytest.mark.parametrize("junk", JUNK)
def test_doctor_on_a_board_whose_files_hold_junk(tmp_path: Path, junk: bytes) -> None:
    board = create_board("agx-orin", tmp_path)
    for path in sorted(board.rglob("*")):
        is_tool = path.is_relative_to(board / "usr") or path.is_relative_to(board / "run")
        if path.is_file() and not path.is_symlink() and not is_tool:
            path.chmod(0o644)
            path.write_bytes(junk)
    checks = api.doctor(board)
    assert all(check.fix for check in checks if check.status != "ok")


@pytest.mark.parametrize(
    ("device", "told"),
    [("orin", "runs on tensorrt, 2 DLA cores"), ("rtx", "runs on tensorrt, no DLA cores")],
)
def test_doctor_tells_the_version_of_tensorrt_and_its_dla_cores(device: str, told: str) -> None:
    with stand_in.played("10.3.0", device=device):
        found = {check.name: check for check in api.doctor()}["tensorrt"]
    assert (found.status, found.fix) == ("ok", None)
    assert found.detail == f"10.3.0+stand-in, {told}"


def test_doctor_tells_what_keeps_tensorrt_from_running() -> None:
    with stand_in.played("8.6.2", device="none"):
        found = {check.name: check for check in api.doctor()}["tensorrt"]
    assert found.status == "missing"
    assert found.detail.startswith("8.6.2+stand-in, but there is no GPU that CUDA can use")
    assert found.fix is not None
    assert "driver" in found.fix


@pytest.mark.parametrize(
    ("kind", "told", "not_told"),
    [("jetson", "JetPack 5 use --engine trtexec", "index"), ("gpu", "index", "container")],
)
def test_doctor_tells_where_tensorrt_is_to_be_had(
    kind: str, told: str, not_told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANSARD_TENSORRT", "a_module_that_is_not_there")
    machine = msgspec.structs.replace(identify(), kind=kind, accelerators=("GPU",))
    (found,) = [check for check in check_engines(machine) if check.name == "tensorrt"]
    assert told in str(found.fix)
    assert not_told not in str(found.fix)


def test_doctor_does_not_ask_for_tensorrt_where_there_is_no_gpu(board: Path) -> None:
    assert "tensorrt" not in {check.name for check in api.doctor(board)}


@pytest.mark.parametrize(
    ("restricted", "user", "status"), [(1, 0, "ok"), (1, 1000, "warning"), (0, 1000, "ok")]
)
def test_doctor_tells_whether_this_user_may_read_counters(
    restricted: int, user: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = tmp_path / "root/proc/driver/nvidia/params"
    parameters.parent.mkdir(parents=True)
    parameters.write_text(f"EnableMSI: 1\nRmProfilingAdminOnly: {restricted}\n")
    monkeypatch.setenv("PATH", str(write_ncu(tmp_path).parent), prepend=":")
    monkeypatch.setattr("os.geteuid", lambda: user)
    (found,) = check_counters(tmp_path / "root", identify())
    assert (found.name, found.status) == ("ncu", status)
    assert found.detail.startswith(f"Nsight Compute {VERSION}")
