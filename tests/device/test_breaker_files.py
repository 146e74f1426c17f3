"""Files that are not what they should be, anywhere in a board's tree: nothing hangs or escapes."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError, InputError, MansardError
from mansard.device.clocks.readback import read_mode
from mansard.device.clocks.settings import find_clocks
from mansard.device.conditions.sources import find_sources
from mansard.device.identity import identify
from mansard.device.meters.finding import find_meters
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.system import (
    below,
    follow_links,
    glob,
    is_there,
    read_text,
    why_unreadable,
    write_text,
)

_PATIENCE_S = 20.0  # of one look at a board, which takes some milliseconds


def _in_time(work: Callable[[], object]) -> bool:
    """Whether ``work`` ends; a thread that waits for ever does not keep the tests from ending."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return not thread.is_alive()


def test_breaker_a_pipe_in_a_files_place_is_read_as_empty(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[object] = []
    assert _in_time(lambda: seen.extend([read_text(pipe), why_unreadable(pipe)]))
    assert seen == ["", f"{pipe}: holds nothing that can be used"]


def test_breaker_a_pipe_is_not_waited_for_when_it_is_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[str] = []

    def write() -> None:
        try:
            write_text(pipe, "1\n")
        except DeviceError as error:
            seen.append(error.what)

    assert _in_time(write)
    assert seen == ["cannot write '1\\n': no such device or address"]


def test_breaker_links_that_lead_to_themselves_are_left_as_they_are(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert follow_links(loop) == loop
    assert not is_there(loop)
    assert glob(loop, "*") == []
    assert not is_there(Path("a\0b"))
    with pytest.raises(InputError, match="is not a path below"):
        below(tmp_path, "/sys/a\0b")


def _look(root: Path) -> None:
    """What a bench and the doctor read of a board."""
    machine = identify(root)
    find_clocks(root)
    read_mode(root)
    for meter in find_meters(root, machine).found:
        meter.read()
    find_sources(root, machine.cpus).read(0.0)
    read_modes(root)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _junk(path: Path) -> None:
    path.write_bytes(bytes(range(256)) + b"9" * 4000)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [_empty, _junk, _folder, _loop, _pipe])
@pytest.mark.parametrize(
    "part",
    [
        "sys/devices/system/cpu",
        "sys/devices/platform",
        "sys/kernel",
        "sys/devices/virtual",
        "proc",
        "etc",
    ],
)
def test_breaker_no_file_of_a_board_makes_us_hang_or_crash(
    agx_orin: Path, part: str, spoil: Callable[[Path], None]
) -> None:
    files = [
        path for path in (agx_orin / part).rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert files
    for path in files:
        spoil(path)
    escaped: list[BaseException] = []

    def look() -> None:
        try:
            _look(agx_orin)
        except MansardError:
            pass  # one clear line is what a broken board shall give
        except BaseException as error:
            escaped.append(error)

    assert _in_time(look)
    assert escaped == []


@pytest.mark.parametrize(
    "folder",
    [
        "sys/class/devfreq",
        "sys/class/hwmon",
        "sys/class/thermal",
        "sys/bus/i2c/drivers",
        "sys/devices/system/cpu/cpu0/cpufreq",
        "sys/kernel/debug",
        "proc/device-tree",
    ],
)
@pytest.mark.parametrize("target", ["itself", "..", "/etc"])
def test_breaker_no_folder_of_a_board_that_is_a_wrong_link_makes_us_crash(
    agx_orin: Path, folder: str, target: str
) -> None:
    path = agx_orin / folder
    assert path.is_dir()
    path.rename(path.with_name("away"))
    path.symlink_to(path.name if target == "itself" else target)
    with contextlib.suppress(MansardError):  # one clear line
        _look(agx_orin)
    assert identify(agx_orin).is_simulated
