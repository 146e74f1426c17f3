"""What is taken out of the volume of builds: caches that a build wrote, and whose disk is full."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.volumes import OutputsVolume
from mansard.core.errors import ContainerError, StorageError
from mansard.core.storage.files import replacing
from tests.containers.stand_in_engine import DOCKER_28, stand_in_engine

NAME = "tensorrt-10.3.0-Orin"
BUILT_S = 1_700_000_000  # when a build wrote a cache; what was sent has the time 0


def archive(entries: dict[str, tuple[bytes, int]]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as written:
        for name, (content, changed_s) in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), changed_s
            written.addfile(entry, io.BytesIO(content))
    return data.getvalue()


@contextmanager
def volume(folder: Path, content: Any) -> Iterator[OutputsVolume]:
    """A volume whose engine sends ``content`` as the archive of whatever is asked for."""
    created = {"Id": "c", "Warnings": []}
    answers = {
        **DOCKER_28,
        "/containers/create": (201, created),
        "/containers/c/json": (200, {"Id": "c", "Name": "/c", "State": {}, "Config": {}}),
        "/containers/c/archive": (200, content),
        "/containers/c": (204, b""),
    }
    with stand_in_engine(folder, answers) as address, connect(address) as engine:
        assert isinstance(engine, ContainerEngine)
        yield OutputsVolume(engine, "sha256:" + "0" * 64, "volume")


def test_only_caches_that_a_build_wrote_are_taken(tmp_path: Path) -> None:
    caches = tmp_path / "caches" / NAME
    caches.mkdir(parents=True)
    (caches / "timing.cache").write_bytes(b"of a board that ended meanwhile")
    content = archive(
        {
            f"{NAME}/timing.cache": (b"as it was sent", 0),
            **{f"{NAME}/calibration-{n}.cache": (b"found", BUILT_S) for n in range(150)},
            f"{NAME}/timing-new.cache": (b"times", BUILT_S),
            f"{NAME}/.hidden": (b"", BUILT_S),
            f"{NAME}/below/x": (b"", BUILT_S),
            "elsewhere/x": (b"", BUILT_S),
        }
    )
    with volume(tmp_path, content) as outputs:
        outputs.take_caches(caches)
    assert (caches / "timing.cache").read_bytes() == b"of a board that ended meanwhile"
    assert (caches / "timing-new.cache").read_bytes() == b"times"
    assert len(list(caches.iterdir())) == 152


def test_a_full_disk_here_is_not_that_of_the_container_engine(tmp_path: Path) -> None:
    class Full:
        def write(self, _: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "net.engine"
    with (
        volume(tmp_path, archive({"net.engine": (b"layers", BUILT_S)})) as outputs,
        pytest.raises(StorageError) as raised,
        replacing(path),
    ):
        outputs.take("net.engine", Full())
    assert raised.value.where == str(path)
    assert "free some space" in str(raised.value.fix)


def test_an_answer_that_breaks_off_is_one_line_about_the_engine(tmp_path: Path) -> None:
    whole = archive({"net.engine": (bytes(1 << 16), BUILT_S)})

    def cut() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole)
        yield whole[:1000]

    with (
        volume(tmp_path, cut) as outputs,
        pytest.raises((ContainerError, StorageError)) as raised,
    ):
        outputs.take("net.engine", io.BytesIO())
    assert "net.engine" in str(raised.value) or "unix://" in str(raised.value)
