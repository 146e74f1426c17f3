"""Loads a saved image of this Mansard; the archive is checked before an engine gets a byte of it.

An engine takes every image and tag of an archive, and writes every byte that it expands to. So
the archive has to name exactly one image, whose layers are those of its configuration, within
limits of size. What the engine gets is an archive written anew, with that image alone, by its
digest. What is in a layer is the engine's to read.

The engine gets it for its own processor, under the name in use here.

Source: Docker Image Specification 1.2, "Combined Image JSON + Filesystem Changeset Format"
(manifest.json, the configuration, ``diff_ids``).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

from mansard.containers.answers import LOG, answer, messages
from mansard.containers.engine import ARCHITECTURES, ContainerEngine
from mansard.containers.engine_errors import explain_build, explained
from mansard.containers.images.building import check_architecture, image_tag
from mansard.containers.images.store import (
    NAME_LABEL,
    VERSION_LABEL,
    check_disk,
    digest_path,
    find,
    identity_of,
)
from mansard.containers.images.table import Image, ImageTable
from mansard.containers.images.wheels import sha256_of
from mansard.core.errors import ContainerError, InputError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.storage.files import open_file, storage_error
from mansard.core.text import printable
from mansard.core.version import VERSION
from mansard.measuring.manifest import ContainerImage

# CUDA's largest base image with libraries is 16 GB unpacked, and gzip makes a third of it.
_MOST_BYTES = 40 << 30
_MOST_RATIO = 20  # of unpacked to packed bytes; zeros alone reach 1000
_FREE_OF_RATIO_BYTES = 64 << 20
_MOST_ENTRIES = 2000  # an image has 127 layers at most, each with some files
_MOST_SMALL_BYTES = 256 << 10  # of one file that is kept in memory; configurations have 20 KB
_MOST_KEPT_BYTES = 32 << 20
_MOST_HEADER_BYTES = 1 << 20  # of the headers of one entry; Go's limit
_PIECE = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_GZIP = b"\x1f\x8b"
_TOO_MANY_BYTES = f"holds more than {_MOST_RATIO} times its own bytes once unpacked"
_AGAIN = "save the image again with 'mansard data image save'"
_T = TypeVar("_T")


class _ArchiveRun(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")


class _Files(msgspec.Struct, frozen=True):
    diff_ids: tuple[str, ...]


class _Config(msgspec.Struct, frozen=True):
    architecture: str
    os: str
    rootfs: _Files
    config: _ArchiveRun = _ArchiveRun()


class _Manifest(msgspec.Struct, frozen=True):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")
    tags: tuple[str, ...] | None = msgspec.field(default=None, name="RepoTags")


class Layer(msgspec.Struct, frozen=True):
    """The tar of a layer, unpacked."""

    digest: str  # SHA-256 in hexadecimal
    n_bytes: int


class ArchiveContents(msgspec.Struct, frozen=True, kw_only=True):
    """The one image of an archive, whose layers are those that its configuration names."""

    tag: str
    architecture: str  # GOARCH: amd64, arm64
    labels: dict[str, str]
    config: bytes
    layers: tuple[Layer, ...]  # the base's first
    places: dict[str, Layer]  # by name in the archive


def read_archive(path: Path) -> ArchiveContents:
    """What the archive holds; raises InputError where that is not one image, or StorageError."""
    files: dict[str, bytes | Layer | str] = {}  # content, layer, or target of a link
    n_kept = n_unpacked = 0
    with _opened(path) as tar:
        most_bytes = min(_FREE_OF_RATIO_BYTES + _MOST_RATIO * path.stat().st_size, _MOST_BYTES)
        for number, member in enumerate(_members(tar)):
            if number >= _MOST_ENTRIES:
                raise InputError(f"holds more than {_MOST_ENTRIES} entries")
            if tar.offset > most_bytes:  # where the next entry begins
                raise InputError(_TOO_MANY_BYTES)
            if member.isdir():
                continue
            name = member.name
            if not _NAME.fullmatch(name) or name in files:
                raise InputError(f"holds {printable(name, 80)!r}, or holds it twice")
            content = tar.extractfile(member) if member.isreg() else None
            if member.issym() or member.islnk():
                folder = posixpath.dirname(name) if member.issym() else ""
                files[name] = posixpath.normpath(posixpath.join(folder, member.linkname))
            elif content is None:
                raise InputError(f"holds {name}, which is neither a file nor a folder")
            elif member.size <= _MOST_SMALL_BYTES:
                n_kept += member.size
                if n_kept > _MOST_KEPT_BYTES:
                    raise InputError(f"holds more than {_MOST_KEPT_BYTES} bytes of small files")
                files[name] = content.read()
            else:
                layer = files[name] = _read_layer(content, most_bytes - n_unpacked)
                n_unpacked += layer.n_bytes
        return _one_image(files, most_bytes)


def _read_layer(content: IO[bytes], most_bytes: int) -> Layer:
    """The layer in a file of the archive; raises InputError where it has more bytes."""
    digest, n_bytes = hashlib.sha256(), 0
    for piece in _unpacked(content):
        digest.update(piece)
        n_bytes += len(piece)
        if n_bytes > most_bytes:
            raise InputError(_TOO_MANY_BYTES)
    return Layer(digest.hexdigest(), n_bytes)


def _unpacked(content: IO[bytes]) -> Iterator[bytes]:
    """A layer's tar piece by piece; newer engines save it compressed."""
    is_gzip = content.read(len(_GZIP)) == _GZIP
    content.seek(0)
    stream = gzip.GzipFile(fileobj=content) if is_gzip else content
    while piece := stream.read(_PIECE):
        yield piece


def _one_image(files: Mapping[str, bytes | Layer | str], most_bytes: int) -> ArchiveContents:
    def followed(name: str) -> str:
        target = files.get(name)
        return target if isinstance(target, str) else name

    listed = files.get("manifest.json")
    if not isinstance(listed, bytes):
        raise InputError("holds no image: it has no manifest.json")
    manifests = _decoded(listed, tuple[_Manifest, ...], "manifest.json")
    if len(manifests) != 1:
        raise InputError(f"holds {len(manifests)} images, not one")
    (manifest,) = manifests
    data = files.get(followed(manifest.config))
    if not isinstance(data, bytes):
        raise InputError(f"lacks {printable(manifest.config, 80)}, which its manifest names")
    config = _decoded(data, _Config, "its configuration")
    _check_keys(data)
    names = [followed(name) for name in manifest.layers]
    places = _layers(files, names, most_bytes)
    layers = tuple(places[name] for name in names if name in places)
    if tuple(f"sha256:{layer.digest}" for layer in layers) != config.rootfs.diff_ids:
        raise InputError("lacks a layer, or holds another than its configuration names")
    if sum(layer.n_bytes for layer in layers) > most_bytes:  # one may be in the image many times
        raise InputError(_TOO_MANY_BYTES)
    if manifest.tags is None or len(manifest.tags) != 1:
        raise InputError(f"holds an image with {len(manifest.tags or ())} names, not one")
    return ArchiveContents(
        tag=manifest.tags[0],
        architecture=config.architecture,
        labels=config.config.labels or {},
        config=data,
        layers=layers,
        places=places,
    )


def _layers(
    files: Mapping[str, bytes | Layer | str], names: Iterable[str], most_bytes: int
) -> dict[str, Layer]:
    """The layers by the names of their files; the small ones, kept as they are, are read here."""
    layers: dict[str, Layer] = {}
    for name in dict.fromkeys(names):
        layer = files.get(name)
        if isinstance(layer, bytes):
            layer = _read_layer(io.BytesIO(layer), most_bytes)
            most_bytes -= layer.n_bytes
        if isinstance(layer, Layer):
            layers[name] = layer
    return layers


def _decoded(data: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise InputError(f"{what} cannot be read: {error}") from error


def _check_keys(config: bytes) -> None:
    """Refuse a key that repeats: engines, written in Go, read ``Config`` as ``config``."""
    top = json.loads(config, object_pairs_hook=tuple)
    for part in (top, *(value for key, value in top if key in {"config", "rootfs"})):
        keys = [key.casefold() for key, _ in part or ()]
        if len(set(keys)) < len(keys):
            raise InputError("has a configuration with a key twice")


def rewrite(path: Path, contents: ArchiveContents, tag: str) -> Iterator[bytes]:
    """A tar of the image of ``contents`` alone, as ``tag``, piece by piece.

    Raises InputError where the file has changed since it was read. The manifest comes last:
    without it an engine has no image.
    """
    missing = set(contents.layers)
    with _opened(path) as tar:
        for member in _members(tar):
            layer = contents.places.get(member.name)
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None and layer in missing:
                missing.remove(layer)
                yield from _entry(f"{layer.digest}.tar", layer.n_bytes, _same(content, layer))
        if missing:
            raise _changed()
    config = f"{hashlib.sha256(contents.config).hexdigest()}.json"
    layers = [f"{layer.digest}.tar" for layer in contents.layers]
    manifest = msgspec.json.encode([{"Config": config, "RepoTags": [tag], "Layers": layers}])
    yield from _entry(config, len(contents.config), [contents.config])
    yield from _entry("manifest.json", len(manifest), [manifest])
    yield bytes(2 * _BLOCK)


def _entry(name: str, n_bytes: int, content: Iterable[bytes]) -> Iterator[bytes]:
    header = tarfile.TarInfo(name)
    header.size = n_bytes
    yield header.tobuf(tarfile.GNU_FORMAT)
    yield from content
    yield bytes(-n_bytes % _BLOCK)


def _same(content: IO[bytes], layer: Layer) -> Iterator[bytes]:
    """The tar of ``layer``; raises InputError at its end where the tar is another."""
    digest, n_left = hashlib.sha256(), layer.n_bytes
    for piece in _unpacked(content):
        n_left -= len(piece)
        if n_left < 0:
            break
        digest.update(piece)
        yield piece
    if n_left or digest.hexdigest() != layer.digest:
        raise _changed()


def _changed() -> InputError:
    return InputError("has changed while it was loaded", fix="load it again")


class _Stream(gzip.GzipFile):
    """The tar. tarfile keeps in memory all that it reads of an entry's headers."""

    left_bytes: float = _MOST_HEADER_BYTES  # of headers; without a limit for content

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= min(self.left_bytes, _MOST_HEADER_BYTES):
            raise InputError("holds a header of more than 1 MiB")
        self.left_bytes -= size
        return super().read(size)


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries of ``tar``, which keeps none of them."""
    stream = cast("_Stream", tar.fileobj)
    while (member := tar.next()) is not None:
        stream.left_bytes = math.inf
        tar.members.clear()  # type: ignore[attr-defined]
        size = member.pax_headers.get("size", str(member.size))
        if size != str(member.size) or not 0 <= member.size <= _MOST_BYTES:
            raise InputError(f"holds a file that says it has {printable(size, 40)} bytes")
        if member.issparse():
            raise InputError("holds a sparse file; no image of Mansard has one")
        yield member
        stream.left_bytes = _MOST_HEADER_BYTES


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """The opened archive; errors name the file."""
    try:
        with (
            open_file(path) as file,
            _Stream(fileobj=file) as stream,
            tarfile.open(fileobj=stream, mode="r:") as tar,
        ):
            yield tar
    except InputError as error:
        raise InputError(error.what, where=str(path), fix=error.fix or _AGAIN) from error
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"is not a tar.gz file: {error}", where=str(path), fix=_AGAIN) from error
    except (ValueError, RecursionError) as error:  # tarfile's, of pax headers
        raise InputError("holds a damaged header", where=str(path), fix=_AGAIN) from error
    except OSError as error:
        raise storage_error(error, path) from error


_DIGEST_LINE = re.compile(rb"([0-9a-f]{64})  \S.*\n?")
_MOST_DIGEST_BYTES = 4096
# Docker omits it in names. podman 4.3 reads a name without it as "localhost/".
_HUB = "docker.io/"
_SAVE = "save one of this version with 'mansard data image save FILE'"
_COPIES = 2  # an engine writes the archive to its disk, and then its layers beside it


def load_image(engine: ContainerEngine, path: Path, table: ImageTable) -> ContainerImage:
    """Load a saved image of ``table`` after checking its digest and its content.

    The engine gets that image alone, under the name that this Mansard uses. Raises InputError
    where the file is damaged or holds anything else, ContainerError, StorageError.
    """
    _check_digest(path)
    contents = read_archive(path)
    image = _image_of(contents, path, table)
    check_architecture(engine, image)
    needed_bytes = _COPIES * sum(layer.n_bytes for layer in contents.layers)
    check_disk(engine, needed_bytes, f"the image of {path}")
    tag = image_tag(image)
    _check_ours(engine, contents, tag, path)
    content = rewrite(path, contents, f"{_HUB}{tag}")
    with explained(str(path)):
        loading = answer(engine.client, "POST", "/images/load", limits=LOG, content=content)
        with loading as response:
            for message in messages(response):
                if message.get("error"):
                    raise explain_build(str(message["error"]), str(path), done="loaded")
    there = find(engine.client, tag)
    if there is None:
        raise ContainerError("the engine loaded the image and does not have it", where=tag)
    return identity_of(there)


def _image_of(contents: ArchiveContents, path: Path, table: ImageTable) -> Image:
    """The entry of ``table`` that the image says it was built from."""
    name = contents.labels.get(NAME_LABEL, "")
    image = next((image for image in table.images if image.name == name), None)
    if image is None:
        origin = (
            f"the image {printable(name, 60)}, which is not in the table" if name else "no label"
        )
        raise InputError(
            f"holds no image of Mansard's, but {printable(contents.tag, 100)} with {origin}",
            where=str(path),
            fix=_SAVE,
        )
    return image


def _check_ours(engine: ContainerEngine, contents: ArchiveContents, tag: str, path: Path) -> None:
    """Refuse an image for another processor or of another version."""
    wanted = engine.facts.architecture
    architecture = ARCHITECTURES.get(contents.architecture, contents.architecture)
    if wanted and architecture != wanted:
        raise InputError(
            f"holds an image for {printable(architecture, 40)}, and the engine runs on {wanted}",
            where=str(path),
            fix="save one on a machine with the same processor",
        )
    if contents.tag.removeprefix(_HUB) != tag:
        version = contents.labels.get(VERSION_LABEL, "")
        other = f" of Mansard {printable(version, 40)}, this is {VERSION}"
        raise InputError(
            f"holds {printable(contents.tag, 150)}{other if version != VERSION else ''}, not {tag}",
            where=str(path),
            fix=_SAVE,
        )


def _check_digest(path: Path) -> None:
    reading = digest_path(path)
    try:
        with open_file(reading) as stream:
            expected = _DIGEST_LINE.fullmatch(stream.read(_MOST_DIGEST_BYTES))
        reading = path
        digest = sha256_of(path).encode()
    except FileNotFoundError as error:
        raise InputError(
            "is not there", where=str(reading), fix="copy the archive and its .sha256 together"
        ) from error
    except OSError as error:
        raise storage_error(error, reading) from error
    if expected is None or expected[1] != digest:
        raise InputError(
            "is damaged or not complete: its digest is not the one beside it",
            where=str(path),
            fix="copy it again, with its .sha256",
        )
