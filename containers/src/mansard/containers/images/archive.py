"""A saved image, looked through as a stream before an engine sees a byte of it.

Engines believe an archive: they take every image and tag that it names, and write every byte
that it expands to. So the file is read here first, with limits, down to the headers of the
files in its layers; and what goes to the engine is an archive written anew, with only the one
image that was looked at. Two readers that understand a strange archive differently cannot
differ about that one.

Sources: Docker Image Specification 1.2, "Combined Image JSON + Filesystem Changeset Format"
(manifest.json, the configuration, ``diff_ids``); POSIX.1-2017, pax, "ustar Interchange Format"
and "pax Header Block"; GNU tar's manual, "Storing Sparse Files".
"""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mansard.core.errors import InputError
from mansard.core.files import open_file, storage_error
from mansard.core.line_channel import DECODE_ERRORS
from mansard.core.text import printable

# CUDA's largest base image with libraries is 16 GB unpacked, and gzip makes a third of it.
MOST_BYTES = 40 << 30
MOST_RATIO = 20  # of what it expands to and the file itself; zeros alone reach 1000
_FREE_OF_RATIO_BYTES = 64 << 20
_MOST_ENTRIES = 2000  # of the archive: an image has 127 layers at most, each with some files
_MOST_FILES = 1_000_000  # in all layers; l4t-jetpack has 200 000
_MOST_SMALL_BYTES = 256 << 10  # of one file that is kept in memory; configurations have 20 KB
_MOST_KEPT_BYTES = 32 << 20
_MOST_NAME_BYTES = 1 << 20  # of a header that names a long path; Go's limit
_PIECE = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_GZIP = b"\x1f\x8b"
_AGAIN = "save the image again with 'mansard image save'"
# Kinds of entries that have no content, whatever size they state: as Go's archive/tar reads them.
_HEADER_ONLY = frozenset(
    (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE)
) | {tarfile.FIFOTYPE}
_FILES = frozenset((tarfile.REGTYPE, tarfile.AREGTYPE))
_LINKS = frozenset((tarfile.LNKTYPE, tarfile.SYMTYPE))
_LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_OF_THE_NEXT = frozenset((*_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE))  # headers before an entry's
_SIZE = re.compile(r"[0-9]{1,18}")


_T = TypeVar("_T")


class _Run(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")


class _Files(msgspec.Struct, frozen=True):
    diff_ids: tuple[str, ...]


class _Config(msgspec.Struct, frozen=True):
    architecture: str
    os: str
    rootfs: _Files
    config: _Run = _Run()


class _Manifest(msgspec.Struct, frozen=True):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")
    tags: tuple[str, ...] | None = msgspec.field(default=None, name="RepoTags")


class Layer(msgspec.Struct, frozen=True):
    """The tar of a layer, unpacked."""

    digest: str  # SHA-256 in hexadecimal
    n_bytes: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The one image of an archive, whose layers are those that its configuration names."""

    tag: str
    architecture: str  # GOARCH: amd64, arm64
    labels: dict[str, str]
    config: bytes
    layers: tuple[Layer, ...]  # the base's first
    places: dict[str, Layer]  # by the name of a file of the archive


def read_archive(path: Path) -> Contents:
    """What the archive holds; raises InputError where that is not one image, or StorageError."""
    with _opened(path) as stream:
        return _one_image(_look_through(stream, _most_bytes(path)))


def rewrite(path: Path, contents: Contents, tag: str) -> Iterator[bytes]:
    """A tar of the image of ``contents`` alone, as ``tag``, piece by piece.

    Raises InputError where the file is no longer what was looked through. The manifest comes
    last, so an engine that has got all before it has no image yet.
    """
    missing = set(contents.layers)
    with _opened(path) as stream:
        for entry in _entries(stream, _Limit(_MOST_ENTRIES, "entries")):
            layer = contents.places.get(entry.name)
            if entry.kind in _FILES and layer in missing:
                missing.remove(layer)
                yield _header(f"{layer.digest}.tar", layer.n_bytes)
                yield from _same(entry.content, layer)
                yield bytes(-layer.n_bytes % _BLOCK)
        if missing:
            raise _changed()
    config = f"{hashlib.sha256(contents.config).hexdigest()}.json"
    layers = [f"{layer.digest}.tar" for layer in contents.layers]
    manifest = msgspec.json.encode([{"Config": config, "RepoTags": [tag], "Layers": layers}])
    for name, data in ((config, contents.config), ("manifest.json", manifest)):
        yield _header(name, len(data)) + data + bytes(-len(data) % _BLOCK)
    yield bytes(2 * _BLOCK)


def _header(name: str, n_bytes: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = n_bytes
    return entry.tobuf(tarfile.GNU_FORMAT)


def _same(content: _Readable, layer: Layer) -> Iterator[bytes]:
    """The tar of ``layer``, whose last piece is only handed out when all of it was right."""
    hashing = _Hashing(_unpacked(content))
    n_left, last = layer.n_bytes, b""
    while n_left and (piece := hashing.read(min(_PIECE, n_left))):
        yield last
        n_left, last = n_left - len(piece), piece
    if n_left or hashing.read(1) or hashing.digest != layer.digest:
        raise _changed()
    yield last


def _changed() -> InputError:
    return InputError("has changed while it was loaded", fix="load it again")


# From the bytes of a tar to its entries. Python's own reader keeps every entry, reads a long
# name of any length into memory, and expands sparse files.


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Limit:
    """Counts something down; raises InputError below zero."""

    def __init__(self, most: int, of_what: str) -> None:
        self._left, self._told = most, f"holds more than {most} {of_what}"

    def take(self, n: int = 1) -> None:
        self._left -= n
        if self._left < 0:
            raise InputError(self._told)


class _Limited:
    """A stream of which no more than ``limit`` is read."""

    def __init__(self, source: _Readable, limit: _Limit) -> None:
        self._source, self._limit = source, limit

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._limit.take(len(data))
        return data


class _Content:
    """The content of one entry, of which what is not read is passed over."""

    def __init__(self, source: _Readable, n_bytes: int) -> None:
        self._source, self.n_left = source, n_bytes

    def read(self, size: int, /) -> bytes:
        data = self._source.read(min(size, self.n_left))
        self.n_left -= len(data)
        if not data and size and self.n_left:
            raise InputError("is cut off")
        return data


class _Hashing:
    """A stream whose bytes are counted and hashed as they are read."""

    def __init__(self, source: _Readable) -> None:
        self._source, self._hash, self.n_bytes = source, hashlib.sha256(), 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._hash.update(data)
        self.n_bytes += len(data)
        return data

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class _Begun:
    """A stream of which the first bytes were read already."""

    def __init__(self, first: bytes, rest: _Readable) -> None:
        self._first, self._rest = first, rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._first:
            return self._rest.read(_PIECE if size < 0 else size)
        data, self._first = self._first[:size], self._first[size:]
        return data


class _Entry(msgspec.Struct, frozen=True):
    name: str
    kind: bytes
    link: str
    content: _Content


def _entries(stream: _Readable, limit: _Limit) -> Iterator[_Entry]:
    """The entries of a tar, one after the other; raises InputError for what is no plain one."""
    said: dict[str, str] = {}
    while (block := _exactly(stream, _BLOCK)) != bytes(_BLOCK):
        limit.take()
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if header.type in _OF_THE_NEXT:
            size = _size(header, {})
            if size > _MOST_NAME_BYTES:
                raise InputError("holds a header of more than 1 MiB")
            said |= _said(header.type, _exactly(stream, size))
        else:
            size = _size(header, said)
            content = _Content(stream, size)
            name = said.get("path", header.name).rstrip("/")
            yield _Entry(name, header.type, said.get("linkpath", header.linkname), content)
            said = {}
            while content.n_left:
                content.read(_PIECE)
        _exactly(stream, -size % _BLOCK)


def _size(header: tarfile.TarInfo, said: Mapping[str, str]) -> int:
    """The length of an entry's content, as Go's reader has it."""
    if header.type == tarfile.GNUTYPE_SPARSE:
        raise InputError("holds a sparse file, which no image of ours does")
    if header.type in _HEADER_ONLY:
        return 0
    text = said.get("size", str(header.size))
    if not _SIZE.fullmatch(text) or int(text) > MOST_BYTES:
        raise InputError(f"holds a file that says it has {printable(text, 40)} bytes")
    return int(text)


def _said(kind: bytes, data: bytes) -> dict[str, str]:
    """What a header says of the entry after it."""
    if kind in _LONG:
        return {_LONG[kind]: data.rstrip(b"\0").decode("utf-8", "replace")}
    records = _records(data)
    if kind == tarfile.XGLTYPE:  # for all entries: Go's reader leaves it to its caller
        return {}
    return {key: records[key] for key in ("path", "linkpath", "size") if key in records}


def _records(data: bytes) -> dict[str, str]:
    """The records of a pax header: each is its length, a blank, ``key=value`` and a line end."""
    found = {}
    while data:
        length = data.partition(b" ")[0]
        n_bytes = int(length) if length.isdigit() and len(length) < 8 else 0
        record = data[len(length) + 1 : n_bytes]
        if n_bytes > len(data) or not record.endswith(b"\n"):
            raise InputError("holds a header that is none")
        key, _, value = record[:-1].decode("utf-8", "replace").partition("=")
        if key.startswith("GNU.sparse"):
            raise InputError("holds a sparse file, which no image of ours does")
        found[key] = value
        data = data[n_bytes:]
    return found


def _exactly(stream: _Readable, n_bytes: int) -> bytes:
    pieces = []
    while n_bytes and (piece := stream.read(n_bytes)):
        pieces.append(piece)
        n_bytes -= len(piece)
    if n_bytes:
        raise InputError("is cut off")
    return b"".join(pieces)


def _unpacked(content: _Readable) -> _Readable:
    """A layer's tar, which newer engines save compressed."""
    first = content.read(len(_GZIP))
    whole = _Begun(first, content)
    return gzip.GzipFile(fileobj=whole) if first == _GZIP else whole  # type: ignore[call-overload]


# From entries to one image.


class _Found:
    """What an archive holds, by the names of its files."""

    def __init__(self) -> None:
        self.small: dict[str, bytes] = {}
        self.layers: dict[str, Layer] = {}
        self.links: dict[str, str] = {}


def _look_through(stream: _Readable, most_bytes: int) -> _Found:
    found = _Found()
    kept = _Limit(_MOST_KEPT_BYTES, "bytes of small files")
    n_files = _Limit(_MOST_FILES, "files")
    unpacked = _Limit(most_bytes, "bytes once unpacked")
    for entry in _entries(stream, _Limit(_MOST_ENTRIES, "entries")):
        if entry.kind == tarfile.DIRTYPE:
            continue
        known = (found.small, found.layers, found.links)
        if not _NAME.fullmatch(entry.name) or any(entry.name in each for each in known):
            raise InputError(f"holds {printable(entry.name, 80)!r}, or holds it twice")
        if entry.kind in _LINKS:
            folder = posixpath.dirname(entry.name) if entry.kind == tarfile.SYMTYPE else ""
            found.links[entry.name] = posixpath.normpath(posixpath.join(folder, entry.link))
        elif entry.kind not in _FILES:
            raise InputError(f"holds {entry.name}, which is no file")
        elif entry.content.n_left <= _MOST_SMALL_BYTES:
            kept.take(entry.content.n_left)
            found.small[entry.name] = _exactly(entry.content, entry.content.n_left)
        else:
            found.layers[entry.name] = _read_layer(entry.content, n_files, unpacked)
    for name in _layer_names(found):
        if name in found.small:
            content = io.BytesIO(found.small[name])
            found.layers[name] = _read_layer(content, n_files, unpacked)
    return found


def _read_layer(content: _Readable, n_files: _Limit, unpacked: _Limit) -> Layer:
    """Look through a layer's tar, and past its end; raises InputError."""
    hashing = _Hashing(_Limited(_unpacked(content), unpacked))
    for entry in _entries(hashing, n_files):
        if ".." in entry.name.split("/"):
            raise InputError(f"holds a layer with {printable(entry.name, 80)!r}")
    while hashing.read(_PIECE):
        pass
    return Layer(hashing.digest, hashing.n_bytes)


def _manifest(found: _Found) -> _Manifest:
    if "manifest.json" not in found.small:
        raise InputError("holds no image: it has no manifest.json")
    images = _decoded(found.small["manifest.json"], tuple[_Manifest, ...], "manifest.json")
    if len(images) != 1:
        raise InputError(f"holds {len(images)} images, not one of ours alone")
    return images[0]


def _layer_names(found: _Found) -> list[str]:
    """The files that the manifest names as layers, links followed."""
    return [found.links.get(name, name) for name in _manifest(found).layers]


def _one_image(found: _Found) -> Contents:
    manifest = _manifest(found)
    data = found.small.get(found.links.get(manifest.config, manifest.config))
    if data is None:
        raise InputError(f"lacks {printable(manifest.config, 80)}, which its manifest names")
    config = _decoded(data, _Config, "its configuration")
    layers = [found.layers.get(name) for name in _layer_names(found)]
    if tuple(layer and f"sha256:{layer.digest}" for layer in layers) != config.rootfs.diff_ids:
        raise InputError("lacks a layer, or holds another than its configuration names")
    if manifest.tags is None or len(manifest.tags) != 1:
        raise InputError(f"holds an image with {len(manifest.tags or ())} names, not one")
    return Contents(
        tag=manifest.tags[0],
        architecture=config.architecture,
        labels=config.config.labels or {},
        config=data,
        layers=tuple(layer for layer in layers if layer is not None),
        places=found.layers,
    )


def _decoded(data: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise InputError(f"{what} cannot be read: {error}") from error


def _most_bytes(path: Path) -> int:
    """What the file may expand to."""
    return min(_FREE_OF_RATIO_BYTES + MOST_RATIO * path.stat().st_size, MOST_BYTES)


@contextmanager
def _opened(path: Path) -> Iterator[_Limited]:
    """The file unpacked, with a limit on that; its faults are raised with its name."""
    try:
        limit = _Limit(_most_bytes(path), "bytes once unpacked")
        with open_file(path) as file, gzip.GzipFile(fileobj=file) as unpacked:
            yield _Limited(unpacked, limit)
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"is no tar.gz: {error}", where=str(path), fix=_AGAIN) from error
    except InputError as error:
        raise InputError(error.what, where=str(path), fix=error.fix or _AGAIN) from error
    except OSError as error:
        raise storage_error(error, path) from error
