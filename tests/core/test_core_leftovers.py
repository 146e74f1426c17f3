"""What a killed process left is removed by its name and its lock, and nothing else is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import StorageError
from mansard.core.storage.files import write_atomic
from mansard.core.storage.leftovers import hidden_name, is_hidden_name, sweep, temporary_folder

# Writes half of a file and fills a folder, says so, and waits to be killed.
_WRITER = """
import sys
from pathlib import Path
from mansard.core.storage.files import replacing
from mansard.core.storage.leftovers import temporary_folder
where = Path(sys.argv[1])
with temporary_folder(where, "scratch") as folder, replacing(where / "report.html") as stream:
    (folder / "deep").mkdir()
    (folder / "deep" / "rows").write_bytes(b"x" * 1000)
    (folder / "out").symlink_to(where / "mine.txt")
    stream.write(b"half a page")
    stream.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def writing(folder: Path) -> subprocess.Popen[bytes]:
    """A process that is in the middle of writing into ``folder``."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_bytes(b"old")
    (tmp_path / "mine.txt").write_bytes(b"mine")
    with writing(tmp_path) as process:
        assert len(names(tmp_path)) == 4
        write_atomic(tmp_path / "other.txt", b"while it lives")
        assert len(names(tmp_path)) == 5  # what it writes is left alone
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(names(tmp_path)) == 5
    write_atomic(tmp_path / "other.txt", b"afterwards")
    assert names(tmp_path) == ["mine.txt", "other.txt", "report.html"]
    assert (tmp_path / "report.html").read_bytes() == b"old"
    assert (tmp_path / "mine.txt").read_bytes() == b"mine"


def test_names_that_only_look_alike_stay(tmp_path: Path) -> None:
    real = hidden_name("report.html")
    last = "0" if real[-1] != "0" else "1"
    alike = [
        ".mansard-notes",
        ".report.html.k2j3h4",
        ".report.html.mansard-0123456789ab",
        ".report.html.mansard-0123456789ab-00000000",
        real[:-1] + last,
        real[1:],
        f"{real}.txt",
        "mansard-scratch",
    ]
    for name in alike:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / real).write_bytes(b"left by a kill")
    sweep(tmp_path)
    assert names(tmp_path) == sorted(alike)


@pytest.mark.root
def test_what_another_user_left_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / hidden_name("report.html")
    path.write_bytes(b"theirs")
    os.chown(path, 12345, 12345)
    sweep(tmp_path)
    assert path.exists()


def test_links_and_pipes_with_our_names_stay(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_bytes(b"mine")
    (tmp_path / hidden_name("a")).symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / hidden_name("b"))
    before = names(tmp_path)
    sweep(tmp_path)
    assert names(tmp_path) == before
    assert (tmp_path / "victim" / "file").read_bytes() == b"mine"


def test_a_temporary_folder_is_ours_alone_and_goes(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, "model.onnx") as folder:
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "a").mkdir()
        (folder / "a" / "b").write_bytes(b"x")
        sweep(tmp_path)
        assert (folder / "a" / "b").exists()
    assert names(tmp_path) == []


@pytest.mark.root
def test_a_full_disk_gives_no_temporary_folder(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        line = "no temporary folder can be made: no space left on device; free some space"
        with pytest.raises(StorageError, match=line), temporary_folder(tmp_path):
            pass
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@given(st.text(max_size=300).filter(lambda name: "/" not in name and "\0" not in name))
def test_every_hidden_name_fits_and_is_known(name: str) -> None:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return
    hidden = hidden_name(name)
    assert hidden.startswith(".")
    assert is_hidden_name(hidden)
    assert not is_hidden_name(name)
    assert len(os.fsencode(hidden)) <= 255  # NAME_MAX of Linux


def test_two_hidden_names_differ() -> None:
    assert hidden_name("a") != hidden_name("a")
