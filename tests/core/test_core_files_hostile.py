"""Where a file is to be written, something else stands."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from mansard.core.errors import StorageError
from mansard.core.storage.files import read_whole, write_atomic


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="No such device or address"):  # nobody reads it
        write_atomic(pipe, b"content")
    with pytest.raises(StorageError, match="is not a regular file; choose another name"):
        write_atomic(pipe, b"content", tmp_path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    with pytest.raises(StorageError, match="is not a regular file"):
        read_whole(pipe)


def test_a_pipe_that_is_read_takes_the_content(tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe", b"x" * 200_000  # more than a pipe holds
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        first = os.open(pipe, os.O_WRONLY)  # waits for the reader, which then waits for its end
        writer = threading.Thread(target=write_atomic, args=(pipe, content))
        writer.start()
        read = reader.stdout.read(len(content))
        writer.join()
        os.close(first)
    assert read == content
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_sink_takes_the_content_and_stays() -> None:
    write_atomic(Path("/dev/null"), b"content")
    with pytest.raises(StorageError, match="No space left"):
        write_atomic(Path("/dev/full"), b"content")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "target"
    link.symlink_to(target)  # dangling at first
    for content in (b"one", b"two"):
        write_atomic(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["target"]
