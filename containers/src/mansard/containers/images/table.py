"""The table of images: which base and which libraries belong to which machine.

It ships as ``images.toml``. A file of the user's in the same form adds images, changes lines
of ours, and comes first where several fit. Names of images are read as Docker writes them,
host/path:tag@digest, by the grammar of the module ``reference`` of the Distribution project
without its rare forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from mansard.core.errors import InputError, UsageError
from mansard.core.storage.documents import read_toml, settings_file
from mansard.core.text import printable

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")
_REFERENCE = re.compile(
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LONGEST = 512
DEFAULT_HOST = "docker.io"


class Reference(msgspec.Struct, frozen=True):
    """The parts of an image's name."""

    host: str
    path: str
    tag: str
    digest: str | None

    @property
    def repository(self) -> str:
        """The name without tag and digest."""
        return f"{self.host}/{self.path}"


def parse_reference(text: str) -> Reference | None:
    """The parts of ``nvcr.io/nvidia/cuda:12.8``; None if it is not the name of an image."""
    if len(text) > _LONGEST:
        return None
    first, _, rest = text.partition("/")
    # Docker's rule: the first part is a host if it has a dot or a colon, or is localhost.
    has_host = bool(rest) and ("." in first or ":" in first or first == "localhost")
    host = first if has_host else DEFAULT_HOST
    match = _REFERENCE.fullmatch(rest if has_host else text)
    if match is None or not _HOST.fullmatch(host):
        return None
    path = match["path"]
    if host == DEFAULT_HOST and "/" not in path:
        path = f"library/{path}"
    return Reference(host, path, match["tag"] or "latest", match["digest"])


def check_reference(text: str, where: str) -> Reference:
    """The parts of an image's name; raises InputError for other text."""
    reference = parse_reference(text)
    if reference is None:
        raise InputError(
            f"{printable(text, 100)!r} is not a name of an image",
            where=where,
            fix="write it as host/path:tag",
        )
    return reference


TABLE = Path(__file__).parent / "images.toml"
_NAME = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")  # a part of an image's name, too
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")
_VERSIONS = ("l4t_from", "l4t_before", "cuda", "python", "tensorrt")
_LONGEST_NAME = 64

Recipe = Literal["plain", "ubuntu", "standalone"]
Libraries = Literal["cpu", "cuda11", "cuda12", "cuda13"]
Architecture = Literal["x86_64", "aarch64"]


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One image: what it is made of, and the machines that it is for."""

    name: str
    base: str  # reference of the image that it is built on
    serves: Literal["jetson", "card", "cpu"]
    architectures: tuple[Architecture, ...]
    python: str
    recipe: Recipe  # the folder of its Dockerfile
    libraries: Libraries  # the pinned libraries
    source: str  # where these facts come from
    l4t_from: str | None = None  # the first release that it is for
    l4t_before: str | None = None  # the first one that it is no longer for
    sm_from: int | None = None  # compute capabilities that its CUDA runs: 75 is 7.5
    sm_to: int | None = None
    cuda: str | None = None
    tensorrt: str | None = None  # of the release; the base has it only where engines are named
    # Those of ``measure --engine`` that the base has beside ONNX Runtime; such an image is chosen
    # for networks alone.
    engines: tuple[Literal["tensorrt", "trtexec"], ...] = ()
    download_bytes: int | None = None  # of the base, where the registry cannot be asked


class Refused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Releases of L4T that no image can serve."""

    l4t_from: str
    l4t_before: str
    reason: str


class ImageTable(msgspec.Struct, frozen=True, kw_only=True):
    """All images that can be chosen, the preferred ones first."""

    images: tuple[Image, ...]
    refused: tuple[Refused, ...]
    drivers: dict[int, str]  # CUDA's major version -> the oldest driver that runs it on a card

    def image(self, name: str) -> Image:
        """The image of that name; raises UsageError."""
        for image in self.images:
            if image.name == name:
                return image
        names = ", ".join(image.name for image in self.images)
        raise UsageError(f"there is no image {name!r}", fix=f"there are {names}")


def read_table(paths: Sequence[Path] = ()) -> ImageTable:
    """Our table with the user's files over it, the last one first.

    Raises InputError, naming file and image, or StorageError.
    """
    content = read_toml(TABLE, "a table of images")
    images = _images(content, TABLE, {})
    for path in paths:
        added = _images(read_toml(path, "a table of images"), path, images)
        images = {**added, **{name: images[name] for name in images if name not in added}}
    return ImageTable(
        images=tuple(images.values()),
        refused=msgspec.convert(content["refused"], tuple[Refused, ...]),
        drivers=msgspec.convert(content["drivers"], dict[int, str], strict=False),
    )


def user_table(named: Path | None = None) -> ImageTable:
    """Our table with all of the user's own over it; raises as ``read_table`` does."""
    return read_table(own_tables(named))


def own_tables(named: Path | None = None, home: Path | None = None) -> tuple[Path, ...]:
    """The user's own tables that are there, the strongest last.

    They are ``images.toml`` in the user's folder of settings, and the one that is ``named``.
    One in the present folder does not count: the folder may be another person's, and the base
    that the file names would run as root with the files of the machine.
    """
    tables = (settings_file(TABLE.name, home), named)
    return tuple(path for path in tables if path is not None)


def version_key(version: str) -> tuple[int, ...]:
    """``36.4.0`` as a key to compare: without trailing zeros, and 36.10 after 36.4."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _images(content: dict[str, Any], path: Path, known: dict[str, Image]) -> dict[str, Image]:
    """The images of one file by their names; a known one is changed line by line."""
    tables = content.get("images", {})
    unknown = content.keys() - {"images"} if path != TABLE else set()
    if unknown or not isinstance(tables, dict):
        wrong = printable(sorted(unknown)[0], 60) if unknown else "images"
        raise InputError(
            f"{wrong!r} is nothing that a table of images has",
            where=str(path),
            fix="each image begins with [images.NAME]",
        )
    return {name: _image(name, lines, path, known) for name, lines in tables.items()}


def _image(name: str, lines: object, path: Path, known: dict[str, Image]) -> Image:
    where = f"{path}: image {printable(name, _LONGEST_NAME)!r}"
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InputError(
            "is not a name for an image", where=where, fix="write a-z, 0-9, '-' and '.'"
        )
    if not isinstance(lines, dict) or "name" in lines:
        raise InputError("is not a table of an image's lines", where=where)
    before = msgspec.to_builtins(known[name]) if name in known else {"source": str(path)}
    try:
        image = msgspec.convert({**before, **lines, "name": name}, Image)
    except msgspec.ValidationError as error:
        raise InputError(
            str(error), where=where, fix="docs/use/containers.md lists the lines of an image"
        ) from error
    return _checked(image, where)


def _checked(image: Image, where: str) -> Image:
    check_reference(image.base, where)
    for field in _VERSIONS:
        value = getattr(image, field)
        if value is not None and not _VERSION.fullmatch(value):
            raise InputError(f"{field} is not a version: {value!r}", where=where, fix="write 12.6")
    if version_key(image.python) < (3, 10):
        raise InputError("Python must be 3.10 or newer", where=where)
    if not image.architectures:
        raise InputError("serves no architecture", where=where, fix="write x86_64 or aarch64")
    if image.serves == "jetson" and None in (image.l4t_from, image.l4t_before):
        raise InputError(
            "an image for Jetsons needs l4t_from and l4t_before", where=where, fix='write "36.4"'
        )
    if image.serves == "card" and image.cuda is None:
        raise InputError("an image for cards needs its cuda", where=where, fix='write "12.8"')
    return image
