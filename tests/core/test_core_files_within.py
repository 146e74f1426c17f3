"""Inside a folder of ours no link is followed, no pipe waited for, no second name changed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.errors import StorageError
from mansard.core.records import PowerSample
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.files import (
    entries_in,
    find_status,
    make_folder,
    read_whole,
    remove,
    write_atomic,
)
from mansard.core.storage.jsonl import RowReader, RowWriter, read_rows, write_rows

LINK = "is a link, and a folder of runs holds none; remove it"
SAMPLE = PowerSample(rail="r", monotonic_s=0.5, power_w=1.0, energy_j=1.0, unknown={})
Act = Callable[[Path, Path], object]

ACTS: dict[str, Act] = {
    "write_atomic": lambda path, within: write_atomic(path, b"new", within),
    "write_rows": lambda path, within: write_rows(path, PowerSample, [], within),
    "write_document": lambda path, within: write_document(path, SAMPLE, within),
    "RowWriter": lambda path, within: RowWriter(path, PowerSample, within),
    "read_whole": read_whole,
    "read_rows": lambda path, within: read_rows(path, PowerSample, within),
    "read_document": lambda path, within: read_document(path, PowerSample, within),
    "RowReader": lambda path, within: list(RowReader(path, PowerSample, within=within).batches()),
    "find_status": find_status,
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs that is a link itself, beside a folder that is not ours."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_bytes(b"mine")
    (tmp_path / "real").mkdir()
    (tmp_path / "runs").symlink_to("real")
    return tmp_path / "runs"


def victim(runs: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in (runs.parent / "victim").iterdir()]


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("target", ["../victim/file", "../victim/new", "/dev/null", "here"])
def test_a_link_at_the_end_is_refused(runs: Path, act: Act, target: str) -> None:
    (runs / "here").write_bytes(b"also a file of the runs")
    (runs / "report.html").symlink_to(target)
    with pytest.raises(StorageError, match=rf"report\.html: {LINK}"):
        act(runs / "report.html", runs)
    assert victim(runs) == [("file", b"mine")]
    assert entries_in(runs, runs) == {"here": "file", "report.html": "link"}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_link_on_the_way_is_refused(runs: Path, act: Act, depth: int) -> None:
    parts = ["a", "b", "c", "file"]
    folder = make_folder(runs.joinpath(*parts[:depth]), runs)
    (folder / parts[depth]).symlink_to(runs.parent / "victim")
    path = runs.joinpath(*parts[: depth + 1], "file")
    with pytest.raises(StorageError, match=rf"{parts[depth]}: {LINK}"):
        act(path, runs)
    for other in (remove, make_folder, entries_in):
        with pytest.raises(StorageError, match=LINK):
            other(path, runs)
    assert victim(runs) == [("file", b"mine")]


def test_a_link_is_removed_and_not_what_it_leads_to(runs: Path) -> None:
    (runs / "link").symlink_to("../victim/file")
    remove(runs / "link", runs)
    assert entries_in(runs, runs) == {}
    assert victim(runs) == [("file", b"mine")]


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_pipes_and_sockets_are_refused_without_waiting(
    runs: Path, act: Act, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)  # a socket's path has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as listener:
        os.mkfifo("x") if kind == "pipe" else listener.bind("x")
        with pytest.raises(StorageError, match="x: is not a regular file"):
            act(runs / "x", runs)


@pytest.mark.root
def test_a_device_is_refused(runs: Path) -> None:
    try:
        os.mknod(runs / "x", 0o600 | 0o020000, os.makedev(1, 3))  # character device: /dev/null
    except PermissionError:
        pytest.skip("making a device is not allowed here")
    for act in ACTS.values():
        with pytest.raises(StorageError, match="x: is not a regular file"):
            act(runs / "x", runs)


def test_a_second_name_of_a_file_of_rows_is_refused_and_unchanged(runs: Path) -> None:
    other = runs.parent / "victim" / "file"
    write_rows(other, PowerSample, [SAMPLE])
    before = other.read_bytes()
    (runs / "rows.jsonl").hardlink_to(other)
    line = r"rows\.jsonl: has a second name \(a hard link\)"
    with (
        RowWriter(runs / "rows.jsonl", PowerSample, runs) as writer,  # to read is no harm
        pytest.raises(StorageError, match=line),
    ):
        writer.append(SAMPLE)
    with other.open("ab") as stream:
        stream.write(b"torn")
    with pytest.raises(StorageError, match=line):
        RowWriter(runs / "rows.jsonl", PowerSample, runs)
    # What is replaced gets a file of its own.
    write_rows(runs / "rows.jsonl", PowerSample, [], runs)
    assert other.read_bytes() == before + b"torn"
    assert (runs / "rows.jsonl").stat().st_nlink == 1


def test_a_torn_row_is_not_put_aside_through_a_link(runs: Path) -> None:
    write_rows(runs / "rows.jsonl", PowerSample, [SAMPLE], runs)
    with (runs / "rows.jsonl").open("ab") as stream:
        stream.write(b'{"torn')
    (runs / "rows.jsonl.torn-1").symlink_to("../victim/new")  # leads to nothing yet
    with RowWriter(runs / "rows.jsonl", PowerSample, runs) as writer:
        assert writer.torn_path == runs / "rows.jsonl.torn-2"
    assert (runs / "rows.jsonl.torn-2").read_bytes() == b'{"torn'
    assert victim(runs) == [("file", b"mine")]


def test_a_path_that_leads_out_is_an_error_of_ours(runs: Path) -> None:
    for path in (runs / ".." / "victim" / "file", runs.parent / "victim" / "file"):
        with pytest.raises(ValueError, match="victim"):
            write_atomic(path, b"x", runs)


def test_folders_are_made_below_it_and_itself(tmp_path: Path) -> None:
    runs = tmp_path / "deep" / "runs"
    assert make_folder(runs / "a" / "b", runs).is_dir()
    write_atomic(runs / "a" / "b" / "c", b"x", runs)
    assert read_whole(runs / "a" / "b" / "c", runs) == b"x"
    remove(runs / "a" / "b" / "c", runs)
    remove(runs / "a" / "b", runs)
    remove(runs / "a" / "never", runs)
    assert find_status(runs / "a" / "b", runs) is None
    assert entries_in(runs / "a", runs) == {}
    assert entries_in(runs / "never", runs) == {}
