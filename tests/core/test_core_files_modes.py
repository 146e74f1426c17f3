"""New files keep the umask, replaced ones the mode and the owner that they had."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import StorageError
from mansard.core.records import PowerSample
from mansard.core.storage.documents import write_document
from mansard.core.storage.files import make_folder, write_atomic
from mansard.core.storage.jsonl import RowWriter, write_rows


def write_page(path: Path) -> None:
    write_atomic(path, b"page")


def write_table(path: Path) -> None:
    write_rows(path, PowerSample, [])


def append_rows(path: Path) -> None:
    RowWriter(path, PowerSample).close()


def write_inside(path: Path) -> None:
    write_atomic(path, b"page", path.parent)


WRITERS = (write_page, write_table, write_inside)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    old = os.umask(0o022)
    yield os.umask
    os.umask(old)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# A new file may have 666, a new folder 777, less the umask.
@pytest.mark.parametrize(
    ("mask", "file", "folder"),
    [(0o077, 0o600, 0o700), (0o022, 0o644, 0o755), (0o002, 0o664, 0o775), (0o027, 0o640, 0o750)],
)
def test_new_files_keep_the_umask(
    tmp_path: Path, umask: Callable[[int], int], mask: int, file: int, folder: int
) -> None:
    umask(mask)
    for write in (*WRITERS, append_rows):
        path = tmp_path / write.__name__
        write(path)
        assert mode_of(path) == file
    assert mode_of(make_folder(tmp_path / "a" / "b", tmp_path)) == folder


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o604, 0o400])
def test_replaced_files_keep_their_mode(
    tmp_path: Path, umask: Callable[[int], int], mask: int, mode: int
) -> None:
    umask(mask)
    for write in WRITERS:
        path = tmp_path / write.__name__
        path.write_bytes(b"old")
        path.chmod(mode)
        write(path)
        assert path.read_bytes() != b"old"
        assert mode_of(path) == mode


def test_of_a_link_it_is_the_mode_of_its_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert mode_of(target) == 0o640
    assert link.is_symlink()


@pytest.mark.root
def test_replaced_files_keep_their_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    path.chmod(0o664)
    os.chown(path, 12345, 23456)
    write_atomic(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, mode_of(path)) == (12345, 23456, 0o664)


@pytest.fixture
def longest_file() -> Iterator[int]:
    """No file of this process may be longer; the system says so in the middle of a write."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    yield 4096
    resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_limit_on_the_size_of_files_leaves_the_old_one(tmp_path: Path, longest_file: int) -> None:
    path = tmp_path / "report.html"
    write_atomic(path, b"old")
    with pytest.raises(StorageError, match=r"report\.html: File too large; raise the limit"):
        write_atomic(path, b"x" * (longest_file + 1))
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    sample = PowerSample(
        rail="x" * 1000, monotonic_s=0.5, power_w=1.5, energy_j=None, unknown={"energy_j": "none"}
    )
    with pytest.raises(StorageError, match="File too large"):
        write_rows(path, PowerSample, [sample] * 10)
    with RowWriter(tmp_path / "rows.jsonl", PowerSample) as rows:
        rows.append(sample)
        with pytest.raises(StorageError, match=r"rows\.jsonl: File too large"):
            rows.extend([sample] * 4)
    with pytest.raises(StorageError, match="File too large"):
        write_document(path, msgspec.structs.replace(sample, rail="x" * 5000))
    assert path.read_bytes() == b"old"
