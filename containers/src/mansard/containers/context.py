"""What the daemon gets to build an image from: a tar of a recipe, a list, and our own rooms.

There are two steps, and an image for each. The libraries are hundreds of megabytes, need a
network or a folder of wheels, and hardly ever change; the rooms are a megabyte of Python and
change with every version. So a new Mansard needs two seconds and no network.
"""

from __future__ import annotations

import importlib.util
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

import msgspec

from mansard.containers.image_table import Image
from mansard.core.errors import InputError
from mansard.core.files import read_whole
from mansard.core.hashing import content_hash, file_hash
from mansard.core.version import VERSION

RECIPES = Path(__file__).parent / "images"
ON_DEVICE_ROOMS = ("core", "device", "measuring", "microbench")
_IGNORED = frozenset({"__pycache__"})
_EPOCH_S = 0  # of files in the tar: the same content is the same tar
REPOSITORY = "mansard"


class Step(msgspec.Struct, frozen=True):
    """One image to build: its name, its files by their paths in the tar, and its arguments."""

    tag: str
    files: Mapping[str, bytes]
    arguments: Mapping[str, str]
    content: str  # hash of all that makes the image what it is


def libraries_step(image: Image) -> Step:
    """The image that holds the libraries of ``image``; wheels and Python are added later."""
    files = {
        "Dockerfile": _recipe(image.recipe, "Dockerfile"),
        "install.py": _recipe("install.py"),
        "libraries.txt": _recipe("lists", f"{image.libraries}.txt"),
    }
    content = content_hash(({path: file_hash(data) for path, data in files.items()}, image.base))
    return Step(
        tag=f"{REPOSITORY}/{image.name}-libraries:{content}",
        files=MappingProxyType(files),
        arguments=MappingProxyType({"BASE": image.base}),
        content=content,
    )


def rooms_step(image: Image, libraries: Step, revision: str) -> Step:
    """The image that measures: the libraries, and the rooms of this very Mansard.

    ``revision`` is the commit, or a word for why there is none; it is a label alone, and
    the same rooms of another commit are the same image.
    """
    files = {"Dockerfile": _recipe("rooms", "Dockerfile"), **dict(_rooms())}
    hashes = {path: file_hash(data) for path, data in files.items()}
    content = content_hash((hashes, libraries.content, VERSION))
    arguments = {
        "LIBRARIES": libraries.tag,
        "NAME": image.name,
        "VERSION": VERSION,
        "REVISION": revision,
        "SOURCE": content,
        "BASE": image.base,
    }
    return Step(
        tag=f"{REPOSITORY}/{image.name}:{VERSION}-{content}",
        files=MappingProxyType(files),
        arguments=MappingProxyType(arguments),
        content=content,
    )


def write_tar(stream: IO[bytes], files: Mapping[str, bytes], large: Mapping[str, Path]) -> None:
    """A tar of ``files`` and of the files that ``large`` names, all of root and readable."""
    with tarfile.open(fileobj=stream, mode="w") as archive:
        _add_folder(archive, "wheels")  # COPY wants it to be there, even empty
        for path, data in sorted(files.items()):
            archive.addfile(_entry(path, len(data)), io.BytesIO(data))
        for path, source in sorted(large.items()):
            with source.open("rb") as content:
                archive.addfile(_entry(path, source.stat().st_size), content)


def _add_folder(archive: tarfile.TarFile, path: str) -> None:
    entry = _entry(path, 0)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(entry)


def _entry(path: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = size, 0o644, _EPOCH_S
    return entry


def _recipe(*parts: str) -> bytes:
    return read_whole(RECIPES.joinpath(*parts))


def _rooms() -> Iterator[tuple[str, bytes]]:
    """The on-device rooms as they are installed here, by their paths in the image."""
    for room in ON_DEVICE_ROOMS:
        folder = _room_folder(room)
        for path in sorted(folder.rglob("*")):
            within = path.relative_to(folder)
            if path.is_file() and not _IGNORED & set(within.parts):
                yield f"rooms/mansard/{room}/{within.as_posix()}", read_whole(path)


def _room_folder(room: str) -> Path:
    spec = importlib.util.find_spec(f"mansard.{room}")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise InputError(
            f"the room {room} is not installed as files", fix="install mansard with pip"
        )
    return Path(places[0])
