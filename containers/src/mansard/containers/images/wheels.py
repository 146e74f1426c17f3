"""A folder of wheels for building without a registry, and Python itself for bases without it.

The standalone Python is that of the project python-build-standalone (astral-sh), which runs on
every Linux with glibc 2.17 or newer. Its hash is the one that bazelbuild/rules_python carries
in ``python/versions.bzl``, written down there independently of the download.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from mansard.core.errors import ContainerError, InputError, StorageError
from mansard.core.storage.files import open_file, storage_error
from mansard.core.storage.leftovers import system_temporary, temporary_folder

_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*-[^-/\s]+(?:-[^-/\s]+){3,4}\.whl")
_PIECE = 1 << 20
_TIMEOUT_S = 60.0
_MOST_BYTES = 200 << 20  # the real one has 27 MB


class StandalonePython(msgspec.Struct, frozen=True):
    """An archive that unpacks to a folder ``python``."""

    url: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The archive's file name, also in a folder of wheels."""
        return self.url.rpartition("/")[2]


_RELEASES = "https://github.com/astral-sh/python-build-standalone/releases/download"
_BUILD = "cpython-3.10.13+20231002-{}-unknown-linux-gnu-install_only.tar.gz"
PYTHONS = MappingProxyType(
    {
        "aarch64": StandalonePython(
            f"{_RELEASES}/20231002/{_BUILD.format('aarch64')}",
            "8675915ff454ed2f1597e27794bc7df44f5933c26b94aa06af510fe91b58bb97",
        ),
        "x86_64": StandalonePython(
            f"{_RELEASES}/20231002/{_BUILD.format('x86_64')}",
            "5d0429c67c992da19ba3eb58b3acd0b35ec5e915b8cae9a4aa8ca565c423847a",
        ),
    }
)


def find_wheels(folder: Path) -> dict[str, Path]:
    """The wheels of a folder by their paths in the build; raises InputError if there are none."""
    try:
        wheels = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
    except OSError as error:
        raise storage_error(error, folder) from error
    for path in wheels:
        if not _WHEEL.fullmatch(path.name) or not path.is_file():
            raise InputError("is not a wheel", where=str(path), fix="remove it from the folder")
    if not wheels:
        raise InputError(
            "holds no wheels", where=str(folder), fix="fill it with 'pip download', see docs"
        )
    return {f"wheels/{path.name}": path for path in wheels}


@contextlib.contextmanager
def find_python(
    architecture: str,
    wheels: Path | None,
    pythons: Mapping[str, StandalonePython] = PYTHONS,
) -> Iterator[Path]:
    """The archive of Python among the wheels, else downloaded; its hash is checked.

    A downloaded one is there as long as the context. Raises ContainerError,
    InputError or StorageError.
    """
    python = pythons.get(architecture)
    if python is None:
        raise ContainerError(f"there is no standalone Python for {architecture}")
    archive = None if wheels is None else wheels / python.file_name
    if archive is not None and archive.is_file():
        _check(archive, python)
        yield archive
        return
    if wheels is not None:
        raise InputError(
            f"lacks {python.file_name}, which this image needs",
            where=str(wheels),
            fix=f"download it from {python.url}",
        )
    with temporary_folder() as folder:
        yield _download(python, folder)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal, read piece by piece; raises OSError, StorageError."""
    digest = hashlib.sha256()
    with open_file(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _check(path: Path, python: StandalonePython) -> None:
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise storage_error(error, path) from error
    if digest != python.sha256:
        raise InputError(
            f"is not the expected archive: its SHA-256 is {digest}, not {python.sha256}",
            where=str(path),
            fix="delete it and download it again",
        )


def _download(python: StandalonePython, folder: Path) -> Path:
    url, path = quote(python.url, safe=":/"), folder / "python.tar.gz"
    try:
        with (
            path.open("wb") as target,
            urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer,  # noqa: S310 - https
        ):
            n_bytes = 0
            while piece := answer.read(_PIECE):
                n_bytes += target.write(piece)
                if n_bytes > _MOST_BYTES:
                    raise InputError("is longer than any Python", where=url)
        _check(path, python)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        raise ContainerError(
            f"cannot download Python for this image: {reason}",
            where=url,
            fix="connect this machine, or put the archive into a folder and give it as --wheels",
        ) from error
    except OSError as error:
        raise StorageError(
            error.strerror or str(error), where=str(system_temporary()), fix="free some space"
        ) from error
    return path
