"""The journal: on disk before anything is touched, and never believed when it should not be."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.errors import DeviceError, MansardError, StorageError
from mansard.core.storage.documents import write_document
from mansard.device.clocks.readback import read_mode
from mansard.device.holding.acting import MachineStep
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.journal import (
    FileFound,
    Journal,
    find_journal,
    journal_folders,
    observe,
    read_journal,
    write_journal,
)
from mansard.device.holding.restoring import restore
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import set_mode
from mansard.simulator import snapshot
from tests.device.clock_trees import CPU, make_orin, read, write

GPU = "sys/class/devfreq/17000000.gpu"
BOOT = "proc/sys/kernel/random/boot_id"
PLACE = "var/lib/mansard/journal.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, BOOT, "11111111-2222-3333-4444-555555555555")
    return make_orin(tmp_path)


def leave_behind(root: Path, **changes: object) -> Journal:
    """A journal as a run that was cut off leaves it."""
    journal = msgspec.structs.replace(observe(root), **changes)
    write_journal(root, journal)
    return journal


def test_the_journal_is_there_before_anything_is_touched(root: Path) -> None:
    before = snapshot(root)
    seen: list[bool] = []

    def look(step: MachineStep) -> None:
        if step.kind == "write" and not seen:
            seen.append(True)
            journal = read_journal(root / PLACE)
            assert journal == observed
            assert snapshot(root) == before

    mode = msgspec.structs.replace(read_mode(root), kind="clocks", gpu_hz=408e6)
    observed = None
    with hold_machine(root, on_step=look, settle_s=0) as hold:
        observed = read_journal(root / PLACE)
        hold.set(mode)
    assert seen == [True]
    assert observed.pid == os.getpid()
    assert observed.boot_id == "11111111-2222-3333-4444-555555555555"
    assert observed.content(f"/{CPU}/cpu3/online") == "1\n"
    assert observed.content("/sys/devices/platform/bus@0/17000000.gpu/tpc_pg_mask") == "240\n"


def test_a_board_that_was_left_behind_is_restored_by_the_next_start(root: Path) -> None:
    leave_behind(root)
    write(root, f"{GPU}/max_freq", 408_000_000)
    with hold_machine(root) as hold:
        assert read(root, f"{GPU}/max_freq") == "1300500000"
        assert hold.restored is not None
        assert hold.restored.changes == (
            "/sys/class/devfreq/17000000.gpu/max_freq 408000000 → 1300500000",
        )


def test_nothing_to_restore(root: Path) -> None:
    assert restore(root) is None


def test_after_a_reboot_only_the_mode_is_looked_at(agx_orin: Path) -> None:
    leave_behind(agx_orin, boot_id="another start")
    modes = read_modes(agx_orin)
    other = modes.find("15W")
    assert other is not None
    assert set_mode(agx_orin, other.id).kind == "set"
    write(agx_orin, f"{GPU}/min_freq", 408_000_000)
    restored = restore(agx_orin)
    assert restored is not None
    assert restored.is_after_reboot
    assert restored.changes == ("power mode 15W → 30W",)
    assert "was rebooted" in restored.lines()[0]
    assert read(agx_orin, "var/lib/nvpmodel/status") == "pmode:0002"


def test_a_mode_is_found_by_its_name_when_its_number_has_changed(agx_orin: Path) -> None:
    journal = observe(agx_orin)
    assert journal.nvpmodel is not None
    # as an update of the board's software may do: 30W has another number than it had
    leave_behind(agx_orin, nvpmodel=msgspec.structs.replace(journal.nvpmodel, id=3))
    set_mode(agx_orin, 1)
    restored = restore(agx_orin)
    assert restored is not None
    assert restored.changes[0] == "power mode 15W → 30W"
    assert read(agx_orin, "var/lib/nvpmodel/status") == "pmode:0002"


def test_a_mode_that_is_gone_is_said_and_the_journal_kept(agx_orin: Path) -> None:
    journal = observe(agx_orin)
    assert journal.nvpmodel is not None
    leave_behind(agx_orin, nvpmodel=msgspec.structs.replace(journal.nvpmodel, name="60W"))
    with pytest.raises(DeviceError, match=r"power mode 60W: .*no mode of that name any more"):
        restore(agx_orin)
    assert find_journal(agx_orin) is not None


HOSTILE = [
    "/etc/passwd",
    "/sys/../etc/passwd",
    "/proc/sys/kernel/core_pattern",
    "/sys/kernel/uevent_helper",
    "relative",
    "",
    f"/{CPU}/cpu1/../../../../kernel/uevent_helper",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_journal_writes_nowhere_but_to_settings(root: Path, path: str) -> None:
    for name in ("etc/passwd", "sys/kernel/uevent_helper", "proc/sys/kernel/core_pattern"):
        write(root, name, "harmless")
    before = snapshot(root)
    leave_behind(root, files=(FileFound(path, "evil\n"),))
    steps: list[MachineStep] = []
    with pytest.raises(DeviceError, match="is not a setting of this machine"):
        restore(root, on_step=steps.append)
    assert [step for step in steps if step.kind == "write"] == []
    assert {key: text for key, text in snapshot(root).items() if key != PLACE} == before


def test_a_link_that_leads_out_of_sys_is_not_followed(root: Path) -> None:
    victim = root / "etc/victim"
    write(root, "etc/victim", "1")
    leave_behind(root)
    switch = root / f"{CPU}/cpu1/online"
    switch.unlink()
    switch.symlink_to(victim)
    victim.write_text("0\n")
    with pytest.raises(DeviceError, match="cpu1/online wanted 1, found unreadable"):
        restore(root)
    assert victim.read_text() == "0\n"


def test_a_hostile_value_is_not_written(root: Path) -> None:
    path = f"/{CPU}/cpu1/online"
    leave_behind(root, files=(FileFound(path, "1\x1b]0;evil\x07"),))
    with pytest.raises(DeviceError, match="is not a setting"):
        restore(root)
    assert read(root, path) == "1"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"schema":"journal"}',
     b'{"schema":"journal","version":99,"content":{}}',
     b'{"schema":"manifest","version":1,"content":{}}',
     b'{"schema":"journal","version":1,"content":{"files":[]}}'],
)  # fmt: skip
def test_a_broken_journal_is_one_clear_line_and_no_guess(root: Path, content: bytes) -> None:
    write(root, PLACE, "")
    (root / PLACE).write_bytes(content)
    before = snapshot(root)
    for attempt in (lambda: restore(root), lambda: hold_machine(root).__enter__()):
        with pytest.raises(StorageError, match="cannot be used, nothing was restored") as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert snapshot(root) == before
    assert (root / PLACE).read_bytes() == content


@settings(max_examples=40)
@given(data=st.data())
def test_a_damaged_journal_never_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = make_orin(tmp_path_factory.mktemp("board"))
    leave_behind(root)
    whole = (root / PLACE).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    (root / PLACE).write_bytes(whole[:start] + data.draw(st.binary(max_size=8)) + whole[stop:])
    assert "\n" not in said_by_restore(root)


def said_by_restore(root: Path) -> str:
    try:
        restore(root)
    except MansardError as error:
        return str(error)
    return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_journal_of_somebody_else_is_not_believed(root: Path) -> None:
    leave_behind(root)
    os.chown(root / PLACE, 12345, 12345)
    with pytest.raises(StorageError, match="is not a journal of yours: it belongs to user 12345"):
        restore(root)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_no_journal(root: Path, kind: str) -> None:
    journal = leave_behind(root)
    path = root / PLACE
    path.unlink()
    if kind == "link":
        write_document(root / "elsewhere.json", journal)
        path.symlink_to(root / "elsewhere.json")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(StorageError, match="is not a journal"):
        restore(root)


def test_who_may_not_write_there_keeps_it_among_his_own_state(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    write(root, "var/lib", "a file where a folder should be")
    path = write_journal(root, observe(root))
    assert path.is_relative_to(state)
    assert journal_folders(root)[1] == path.parent
    assert restore(root) is not None
    assert list(state.rglob("*.json")) == []


def test_what_a_killed_writer_left_is_removed(root: Path) -> None:
    write(root, "var/lib/mansard/.journal.json.k2j3h4", '{"schema":')
    assert restore(root) is None
    assert not (root / "var/lib/mansard").exists()


def test_an_empty_folder_that_a_killed_writer_left_is_removed(root: Path) -> None:
    # Killed between making the folder and the file in it, or between removing the file and it.
    (root / PLACE).parent.mkdir(parents=True)
    assert restore(root) is None
    assert not (root / PLACE).parent.exists()


def test_the_journal_can_be_read_by_a_person(root: Path) -> None:
    leave_behind(root)
    document = json.loads((root / PLACE).read_text())
    assert (document["schema"], document["version"]) == ("journal", 1)
    assert {"path": f"/{CPU}/cpu3/online", "content": "1\n"} in document["content"]["files"]
    assert stat.S_IMODE((root / PLACE).stat().st_mode) == 0o644


@pytest.fixture
def full_disk(root: Path) -> Iterator[Path]:
    """A machine whose place for journals is a real file system without room."""
    folder = root / "var/lib/mansard"
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    (folder / "full").write_bytes(b"x" * 4096)
    yield root
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
def test_with_a_full_disk_nothing_is_touched(full_disk: Path) -> None:
    before = snapshot(full_disk)
    line = "nothing is set without a journal, which cannot be written: no space left on device; f"
    with pytest.raises(StorageError, match=line), hold_machine(full_disk):
        pytest.fail("it was held without a journal")
    assert snapshot(full_disk) == before
    assert [path.name for path in (full_disk / "var/lib/mansard").iterdir()] == ["full"]
