"""Folders of wheels, and Python itself for bases that have none."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.images.wheels import PYTHONS, StandalonePython, find_python, find_wheels
from mansard.core.errors import ContainerError, InputError, StorageError

CONTENT = b"an archive of Python"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address and folder of a server on this machine."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see what is left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def python_at(address: str, content: bytes = CONTENT) -> dict[str, StandalonePython]:
    digest = hashlib.sha256(content).hexdigest()
    return {"aarch64": StandalonePython(f"{address}/python+1.tar.gz", digest)}


def test_wheels_are_found_by_their_names(tmp_path: Path) -> None:
    wheel = tmp_path / "numpy-2.2.6-cp310-cp310-manylinux_2_17_aarch64.whl"
    wheel.touch()
    (tmp_path / "notes.txt").touch()
    assert find_wheels(tmp_path) == {f"wheels/{wheel.name}": wheel}


def test_a_folder_without_wheels(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no wheels"):
        find_wheels(tmp_path)
    with pytest.raises(StorageError, match="No such file"):
        find_wheels(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        find_wheels(tmp_path / "file")


@pytest.mark.parametrize("name", ["x.whl", "a b-1-py3-none-any.whl", "-r-1-py3-none-any.whl"])
def test_what_only_looks_like_a_wheel(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match="is not a wheel"):
        find_wheels(tmp_path)


def find(architecture: str, wheels: Path | None, pythons: Mapping[str, StandalonePython]) -> None:
    """Enter and leave the context."""
    with find_python(architecture, wheels, pythons):
        pass


def test_python_is_downloaded_and_checked(served: tuple[str, Path], downloads: Path) -> None:
    address, folder = served
    (folder / "python+1.tar.gz").write_bytes(CONTENT)
    with find_python("aarch64", None, python_at(address)) as path:
        assert path.read_bytes() == CONTENT
        assert list(downloads.rglob("*")) == [path.parent, path]
    assert list(downloads.iterdir()) == []


def test_another_python_than_expected_is_refused_and_removed(
    served: tuple[str, Path], downloads: Path
) -> None:
    address, folder = served
    (folder / "python+1.tar.gz").write_bytes(b"something else")
    with pytest.raises(InputError, match="is not the expected archive"):
        find("aarch64", None, python_at(address))
    assert list(downloads.iterdir()) == []


def test_python_that_cannot_be_downloaded(served: tuple[str, Path], downloads: Path) -> None:
    for address in (served[0], "http://127.0.0.1:1", "http://python.invalid"):
        with pytest.raises(ContainerError, match=r"cannot download Python .*--wheels"):
            find("aarch64", None, python_at(address))
    assert list(downloads.iterdir()) == []


def test_python_among_the_wheels_is_used_and_checked(tmp_path: Path) -> None:
    pythons = python_at("http://127.0.0.1:1")
    with pytest.raises(InputError, match=r"lacks python\+1\.tar\.gz"):
        find("aarch64", tmp_path, pythons)
    path = tmp_path / "python+1.tar.gz"
    path.write_bytes(CONTENT)
    with find_python("aarch64", tmp_path, pythons) as found:
        assert found == path
    assert path.exists()
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="is not the expected archive"):
        find("aarch64", tmp_path, pythons)
    assert path.exists()  # it is the user's


def test_a_processor_without_a_python() -> None:
    with pytest.raises(ContainerError, match="no standalone Python for riscv64"):
        find("riscv64", None, {})


def test_the_archives_are_of_python_3_10_by_https() -> None:
    for architecture, python in PYTHONS.items():
        assert python.url.startswith("https://github.com/astral-sh/python-build-standalone/")
        assert python.file_name.startswith("cpython-3.10.")
        assert architecture in python.file_name
        assert len(bytes.fromhex(python.sha256)) == 32
