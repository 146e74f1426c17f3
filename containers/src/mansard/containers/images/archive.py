"""A saved image, read as a stream before an engine gets a byte of it.

An engine believes an archive: it takes every image and tag in it, and writes every byte that it
expands to. So the file is read here first, with limits, down to the headers of the files in its
layers. What the engine gets is an archive written anew, with only the image that was checked.
Layers go into it as they are. An entry of a layer that two tar readers could understand
differently is refused, for one of them could see a file in it that the other passes over.

Sources: Docker Image Specification 1.2, "Combined Image JSON + Filesystem Changeset Format"
(manifest.json, the configuration, ``diff_ids``); POSIX.1-2017, pax, "ustar Interchange Format"
and "pax Header Block"; GNU tar's manual, "Storing Sparse Files"; Go's archive/tar, reader.go.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from mansard.core.errors import InputError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.storage.files import open_file, storage_error
from mansard.core.text import printable

# CUDA's largest base image with libraries is 16 GB unpacked, and gzip makes a third of it.
_MOST_BYTES = 40 << 30
_MOST_RATIO = 20  # of what it expands to and the file itself; zeros alone reach 1000
_FREE_OF_RATIO_BYTES = 64 << 20
_MOST_ENTRIES = 2000  # of the archive: an image has 127 layers at most, each with some files
_MOST_FILES = 1_000_000  # in all layers; l4t-jetpack has 200 000
_MOST_SMALL_BYTES = 256 << 10  # of one file that is kept in memory; configurations have 20 KB
_MOST_KEPT_BYTES = 32 << 20
_MOST_HEADER_BYTES = 1 << 20  # of a header with a long name; Go's limit
_PIECE = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_GZIP = b"\x1f\x8b"
# What engines unpack: gzip, bzip2, xz, zstd and the frames that zstd skips.
_COMPRESSED = re.compile(rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
_AGAIN = "save the image again with 'mansard image save'"
_SPARSE = "holds a sparse file; no image of Mansard has one"
_AMBIGUOUS = "holds a header that tar readers understand differently"
# Links, devices, folders and pipes have no content, whatever size they state: as in Go's reader.
_HEADER_ONLY = b"123456"
_LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_OF_THE_NEXT = frozenset((*_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE))  # of the next entry
_RECORD = re.compile(rb"([0-9]{1,7}) ([^=]*)=")  # of a pax header: its length, and its key
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
    files: dict[str, bytes | Layer | str] = {}  # content, layer, or target of a link
    kept = _Limit(_MOST_KEPT_BYTES, "bytes of small files")
    with _entries_of(path) as entries:
        n_files, unpacked = _Limit(_MOST_FILES, "files"), _unpacked_limit(path)
        read_layer = functools.partial(_read_layer, n_files=n_files, unpacked=unpacked)
        for header, content in entries:
            name = header.name
            if header.isdir():
                continue
            if not _NAME.fullmatch(name) or name in files:
                raise InputError(f"holds {printable(name, 80)!r}, or holds it twice")
            if header.issym() or header.islnk():
                folder = posixpath.dirname(name) if header.issym() else ""
                files[name] = posixpath.normpath(posixpath.join(folder, header.linkname))
            elif not header.isreg():
                raise InputError(f"holds {name}, which is neither a file nor a folder")
            elif content.n_left <= _MOST_SMALL_BYTES:
                kept.take(content.n_left)
                files[name] = content.read(content.n_left)
            else:
                files[name] = read_layer(content)
        return _one_image(files, read_layer)


def _read_layer(content: _Content, n_files: _Limit, unpacked: _Limit) -> Layer:
    """Read a layer's tar and what comes after its end; raises InputError."""
    hashing = _Hashing(_unpacked(content))
    for header, _ in _entries(hashing, n_files, unpacked):
        if ".." in header.name.split("/"):
            raise InputError(f"holds a layer with the path {printable(header.name, 80)!r}")
    while piece := hashing.read(_PIECE):
        unpacked.take(len(piece))
    if _COMPRESSED.match(hashing.first):
        raise InputError("holds a layer that engines would unpack once more")
    return hashing.layer


def _one_image(
    files: Mapping[str, bytes | Layer | str], read_layer: Callable[[_Content], Layer]
) -> Contents:
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
    names = [followed(name) for name in manifest.layers]
    places = {}
    for name in dict.fromkeys(names):
        found = files.get(name)
        if isinstance(found, bytes):
            found = read_layer(_Content(io.BytesIO(found), len(found)))
        if isinstance(found, Layer):
            places[name] = found
    layers = tuple(places[name] for name in names if name in places)
    if tuple(f"sha256:{layer.digest}" for layer in layers) != config.rootfs.diff_ids:
        raise InputError("lacks a layer, or holds another than its configuration names")
    if manifest.tags is None or len(manifest.tags) != 1:
        raise InputError(f"holds an image with {len(manifest.tags or ())} names, not one")
    return Contents(
        tag=manifest.tags[0],
        architecture=config.architecture,
        labels=config.config.labels or {},
        config=data,
        layers=layers,
        places=places,
    )


def _decoded(data: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise InputError(f"{what} cannot be read: {error}") from error


def rewrite(path: Path, contents: Contents, tag: str) -> Iterator[bytes]:
    """A tar of the image of ``contents`` alone, as ``tag``, piece by piece.

    Raises InputError where the file has changed since it was read. The manifest comes last:
    without it an engine has no image.
    """
    missing = set(contents.layers)
    with _entries_of(path) as entries:
        for header, content in entries:
            layer = contents.places.get(header.name)
            if header.isreg() and layer in missing:
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


def _same(content: _Content, layer: Layer) -> Iterator[bytes]:
    """The tar of ``layer``; raises InputError at its end where the tar is another."""
    hashing = _Hashing(_unpacked(content))
    while piece := hashing.read(min(_PIECE, layer.n_bytes + 1 - hashing.n_bytes)):
        yield piece
    if hashing.layer != layer:
        raise _changed()


def _changed() -> InputError:
    return InputError("has changed while it was loaded", fix="load it again")


# From the bytes of a tar to its entries. Python's tarfile keeps every entry, reads a long name
# of any length into memory, and takes a damaged header for the end. Short reads are ends here.


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Limit:
    """Counts down; raises InputError below zero."""

    def __init__(self, most: int, of_what: str) -> None:
        self._left, self._told = most, f"holds more than {most} {of_what}"

    def take(self, n: int = 1) -> None:
        self._left -= n
        if self._left < 0:
            raise InputError(self._told)


class _Hashing:
    """A stream whose bytes are counted and hashed as they are read."""

    def __init__(self, source: _Readable) -> None:
        self._source, self._hash, self.n_bytes, self.first = source, hashlib.sha256(), 0, b""

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._hash.update(data)
        self.first = self.first or data
        self.n_bytes += len(data)
        return data

    @property
    def layer(self) -> Layer:
        return Layer(self._hash.hexdigest(), self.n_bytes)


class _Content(io.RawIOBase):
    """The content of one entry."""

    def __init__(self, source: _Readable, n_bytes: int) -> None:
        super().__init__()
        self._source, self.n_left = source, n_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = _exactly(self._source, min(len(buffer), self.n_left))
        self.n_left -= len(data)
        buffer[: len(data)] = data
        return len(data)


_Entries = Iterator[tuple[tarfile.TarInfo, _Content]]


def _entries(stream: _Readable, n_entries: _Limit, n_bytes: _Limit) -> _Entries:
    """The entries of a tar, in their order; raises InputError beyond the limits, and for headers
    that no plain tar has."""
    said: dict[str, str] = {}
    while (block := _exactly(stream, _BLOCK)) != bytes(_BLOCK):
        n_entries.take()
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        is_of_next = header.type in _OF_THE_NEXT
        size = _size(header, {} if is_of_next else said)
        n_bytes.take(_BLOCK + size)
        if is_of_next:
            if size > _MOST_HEADER_BYTES:
                raise InputError("holds a header of more than 1 MiB")
            said = _said(header.type, _exactly(stream, size), said)
        else:
            # In the oldest format a name that ends with / is a folder's, which has no content.
            if block[156:157] == tarfile.AREGTYPE and (said or header.isdir()):
                raise InputError(_AMBIGUOUS)
            content = _Content(stream, size)
            header.name = said.get("path", header.name)
            header.linkname = said.get("linkpath", header.linkname)
            yield header, content
            said = {}
            while content.n_left:
                content.n_left -= len(_exactly(stream, min(content.n_left, _PIECE)))
        _exactly(stream, -size % _BLOCK)


def _size(header: tarfile.TarInfo, said: Mapping[str, str]) -> int:
    """The length of an entry's content, as Go's reader has it."""
    if header.type == tarfile.GNUTYPE_SPARSE:
        raise InputError(_SPARSE)
    if header.type in _HEADER_ONLY:
        return 0
    text = said.get("size", str(header.size))
    if not _SIZE.fullmatch(text):
        raise InputError(f"holds a file that says it has {printable(text, 40)} bytes")
    return int(text)


def _said(kind: bytes, data: bytes, before: Mapping[str, str]) -> dict[str, str]:
    """What this header, and those ``before`` it, say of the entry after them."""
    if kind in _LONG:
        return {**before, _LONG[kind]: data.partition(b"\0")[0].decode("utf-8", "replace")}
    if before:  # Go's reader forgets what an earlier pax header said
        raise InputError(_AMBIGUOUS)
    records = _records(data)
    # Go's reader leaves a global header to its caller.
    keys = ("path", "linkpath", "size") if kind == tarfile.XHDTYPE else ()
    return {key: records[key] for key in keys if key in records}


def _records(data: bytes) -> dict[str, str]:
    """The records of a pax header: each is its length, a blank, ``key=value`` and a line end."""
    found, start = {}, 0
    while start < len(data):
        record = _RECORD.match(data, start)
        end = start + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(data) or data[end - 1] != 10:
            raise InputError("holds a damaged pax header")
        key = record[2].decode("utf-8", "replace")
        if key.startswith("GNU.sparse"):
            raise InputError(_SPARSE)
        found[key] = data[record.end() : end - 1].decode("utf-8", "replace")
        start = end
    return found


def _exactly(stream: _Readable, n_bytes: int) -> bytes:
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise InputError("is cut off")
    return data


def _unpacked(content: _Content) -> gzip.GzipFile | io.BufferedReader[Any]:
    """A layer's tar, which newer engines save compressed."""
    reader = io.BufferedReader(content, _PIECE)
    return gzip.GzipFile(fileobj=reader) if reader.peek(2).startswith(_GZIP) else reader


def _unpacked_limit(path: Path) -> _Limit:
    n_bytes = min(_FREE_OF_RATIO_BYTES + _MOST_RATIO * path.stat().st_size, _MOST_BYTES)
    return _Limit(n_bytes, "bytes once unpacked")


@contextmanager
def _entries_of(path: Path) -> Iterator[_Entries]:
    """The entries of the archive; errors are raised with its name."""
    try:
        with open_file(path) as file, gzip.GzipFile(fileobj=file) as stream:
            yield _entries(stream, _Limit(_MOST_ENTRIES, "entries"), _unpacked_limit(path))
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"is not a tar.gz file: {error}", where=str(path), fix=_AGAIN) from error
    except InputError as error:
        raise InputError(error.what, where=str(path), fix=error.fix or _AGAIN) from error
    except OSError as error:
        raise storage_error(error, path) from error
