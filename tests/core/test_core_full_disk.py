"""A full disk, shown by a real file system of 64 KiB, keeps all finished rows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.core.errors import StorageError
from mansard.core.records import PowerSample
from mansard.core.storage.files import write_atomic
from mansard.core.storage.jsonl import RowWriter, read_rows

pytestmark = pytest.mark.root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def sample(rail: str) -> PowerSample:
    return PowerSample(
        rail=rail, monotonic_s=0.5, power_w=1.5, energy_j=None, unknown={"energy_j": "reads power"}
    )


def test_rows_on_a_full_disk_are_kept_whole(small_disk: Path) -> None:
    path = small_disk / "rows.jsonl"
    kept = 0

    def fill(writer: RowWriter[PowerSample]) -> None:
        nonlocal kept
        while True:
            writer.append(sample("x" * 1000))
            kept += 1

    with RowWriter(path, PowerSample) as writer:
        with pytest.raises(StorageError, match="No space left on device; free some space"):
            fill(writer)
        assert 40 < kept < 65  # about 1.1 kB a row on 64 KiB
        rows = read_rows(path, PowerSample)
        assert len(rows.rows) == kept
        assert rows.torn is None
    assert read_rows(path, PowerSample).rows == (sample("x" * 1000),) * kept


def test_a_document_on_a_full_disk_leaves_the_old_one(small_disk: Path) -> None:
    path = small_disk / "report.html"
    write_atomic(path, b"old")
    with pytest.raises(StorageError, match=r"report\.html: No space left on device"):
        write_atomic(path, b"x" * 100_000)
    assert path.read_bytes() == b"old"
    assert [file.name for file in small_disk.iterdir()] == ["report.html"]


def test_a_read_only_folder_is_one_clear_line(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    line = r"Read-only file system; choose a folder that can be written"
    with pytest.raises(StorageError, match=line):
        RowWriter(small_disk / "rows.jsonl", PowerSample)
    with pytest.raises(StorageError, match=line):
        write_atomic(small_disk / "report.html", b"new")
