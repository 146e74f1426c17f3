"""Where a file is to be written, something else stands."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mansard.core.errors import StorageError
from mansard.core.files import read_whole, write_atomic


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="is not a regular file"):
        write_atomic(pipe, b"content")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    with pytest.raises(StorageError, match="is not a regular file"):
        read_whole(pipe)


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "target"
    link.symlink_to(target)  # dangling at first
    for content in (b"one", b"two"):
        write_atomic(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["target"]
