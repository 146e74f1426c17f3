"""Images as files: saved whole or not at all, loaded only if every byte is right."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.images.building import image_tag
from mansard.containers.images.loading import load_image
from mansard.containers.images.store import digest_path, image_identity, save_image
from mansard.containers.images.table import read_table
from mansard.containers.images.wheels import sha256_of
from mansard.core.errors import ContainerError, InputError, StorageError
from tests.containers.image_base import import_program
from tests.containers.throwaway import Daemon

pytestmark = pytest.mark.docker

TABLE = read_table()
TAG = image_tag(TABLE.image("cpu"))  # a small image takes the place of the real one
LABEL = "LABEL mansard.image=cpu"


@pytest.fixture(scope="module")
def engine(daemon: Daemon) -> Iterator[ContainerEngine]:
    with connect(daemon.address) as connected:
        yield connected


@pytest.fixture
def tiny(engine: ContainerEngine) -> str:
    """A small image with our label; its id."""
    return import_program(engine.client, sleep(), TAG, [LABEL])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def sleep() -> Path:
    return Path(shutil.which("sleep") or "/bin/sleep")


def test_saved_it_comes_back_with_the_same_digest(
    engine: ContainerEngine, tiny: str, tmp_path: Path
) -> None:
    path = tmp_path / "image.tar.gz"
    saved = save_image(engine, TAG, path)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["image.tar.gz", "image.tar.gz.sha256"]
    assert saved.size_bytes == path.stat().st_size
    assert saved.sha256 == sha256_of(path)
    checked = subprocess.run(
        ["sha256sum", "--check", digest_path(path).name], cwd=tmp_path, check=False
    )
    assert checked.returncode == 0
    engine.client.images.remove(TAG)
    with pytest.raises(ContainerError, match="not on this machine"):
        image_identity(engine, TAG)
    loaded = load_image(engine, path, TABLE)
    assert (loaded.name, loaded.digest) == (TAG, tiny)


def test_a_flipped_byte_is_found_before_the_engine_sees_it(
    engine: ContainerEngine, tiny: str, tmp_path: Path
) -> None:
    path = tmp_path / "image.tar.gz"
    save_image(engine, TAG, path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged or not complete"):
        load_image(engine, path, TABLE)


def test_a_full_disk_leaves_the_old_file_and_no_other(
    engine: ContainerEngine, tiny: str, small_disk: Path
) -> None:
    path = small_disk / "image.tar.gz"
    path.write_bytes(b"old")
    with pytest.raises(StorageError, match=r"No space left on device; free some space"):
        save_image(engine, TAG, path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in small_disk.iterdir()] == ["image.tar.gz"]


def test_an_image_that_is_not_there(engine: ContainerEngine, tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="not on this machine"):
        save_image(engine, "mansard/none:1", tmp_path / "image.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_an_image_of_somebody_else_is_refused(
    engine: ContainerEngine, tmp_path: Path, bare_image: Any
) -> None:
    path = tmp_path / "image.tar.gz"
    save_image(engine, "mansard-bare:latest", path)
    with pytest.raises(InputError, match="no image of Mansard's, but mansard-bare:latest with no"):
        load_image(engine, path, TABLE)
