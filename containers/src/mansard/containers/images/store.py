"""The images that an engine has: found by name, listed, and known by their digests."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from mansard.containers.answers import IMAGE, answer
from mansard.containers.engine import ContainerEngine
from mansard.containers.engine_errors import explained
from mansard.core.errors import StorageError
from mansard.core.storage.files import replacing, write_atomic
from mansard.measuring.manifest import ContainerImage

NAME_LABEL = "mansard.image"
VERSION_LABEL = "org.opencontainers.image.version"
BASE_DIGEST_LABEL = "org.opencontainers.image.base.digest"
REVISION_LABEL = "org.opencontainers.image.revision"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """One of Mansard's images on an engine."""

    name: str  # in the table of images
    tag: str
    digest: str
    size_bytes: int  # with its libraries and base, which others may share
    version: str
    revision: str
    created: str


def image_identity(engine: ContainerEngine, name: str) -> ContainerImage:
    """Name and digest of the image called ``name``; raises ContainerError if it is not there."""
    with explained(name):
        return identity_of(engine.client.images.get(name))


def identity_of(image: Any) -> ContainerImage:
    """Name and digest of an image of the Docker SDK.

    The digest is the engine's own id, which is the hash of the image's configuration and so of
    all its layers. It stays the same when the image is saved and loaded elsewhere, and a
    container can be started by it; a registry's digest does neither.
    """
    with explained("an image of the engine's"):
        tags: Sequence[str] = image.tags
        return ContainerImage(name=str(tags[0] if tags else image.id), digest=str(image.id))


def registry_digest(image: Any) -> str:
    """The digest of a pulled image in its registry; empty for images from elsewhere."""
    with explained("an image of the engine's"):
        known: Sequence[str] = image.attrs.get("RepoDigests") or ()
        return str(known[0]).partition("@")[2] if known else ""


def find(client: Any, tag: str) -> Any:
    """The image with this tag; None where the engine has none. Raises ContainerError."""
    from docker.errors import ImageNotFound

    with explained(tag):
        try:
            return client.images.get(tag)
        except ImageNotFound:
            return None


def find_base(client: Any, reference: str) -> tuple[str, Any] | None:
    """The base called ``reference``, and a name that the engine builds on; None if it has none.

    An image that was loaded from a file has no digest of a registry, so its tag alone names it
    (containerd's store keeps digests). A tag that was pulled with another digest is another image.
    """
    image = find(client, reference)
    tag = reference.partition("@")[0]
    if image is not None or tag == reference:
        return None if image is None else (reference, image)
    loaded = find(client, tag)
    return None if loaded is None or registry_digest(loaded) else (tag, loaded)


def check_disk(engine: ContainerEngine, needed_bytes: int, what: str) -> None:
    """Raise if the engine's disk lacks the space, where its free space is known here."""
    free = engine.facts.free_bytes()
    if free is not None and free < needed_bytes:
        raise StorageError(
            f"{what} needs about {shown(needed_bytes)} there, and {shown(free)} are free",
            where=engine.facts.data_root,
            fix="free some space: 'docker system df' says what takes it",
        )


def shown(n_bytes: int) -> str:
    """Bytes in words, in powers of ten as Docker counts them."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def list_images(engine: ContainerEngine) -> tuple[Stored, ...]:
    """Mansard's images on the engine, the newest first."""
    with explained(engine.address):
        images = engine.client.images.list(filters={"label": NAME_LABEL})
        stored = [_stored(image, str(tag)) for image in images for tag in image.tags]
    return tuple(sorted(stored, key=lambda stored: (stored.created, stored.tag), reverse=True))


def _stored(image: Any, tag: str) -> Stored:
    labels: dict[str, object] = image.labels
    return Stored(
        name=str(labels.get(NAME_LABEL, "?")),
        tag=tag,
        digest=identity_of(image).digest,
        size_bytes=int(image.attrs["Size"]),
        version=str(labels.get(VERSION_LABEL, "?")),
        revision=str(labels.get(REVISION_LABEL, "?")),
        created=str(image.attrs.get("Created") or ""),
    )


# Images as files, for machines without a network: saved with a digest.


_PIECE = 1 << 20
_COMPRESSION = 1  # higher levels take minutes and gain a tenth: libraries are mostly code


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """A saved image, and the digest of the file that holds it."""

    path: Path
    image: ContainerImage
    size_bytes: int
    sha256: str


def digest_path(path: Path) -> Path:
    """The path of the digest beside the archive, for ``sha256sum --check``."""
    return path.with_name(f"{path.name}.sha256")


def save_image(engine: ContainerEngine, tag: str, path: Path) -> Archive:
    """Save an image as ``path`` (tar.gz) with its digest beside it, whole or not at all.

    Raises ContainerError, or StorageError with nothing left behind.
    """
    with explained(tag):
        image = identity_of(engine.client.images.get(tag))
    with replacing(path) as target, contextlib.ExitStack() as stack:
        with explained(tag):
            saving = answer(engine.client, "GET", f"/images/{tag}/get", limits=IMAGE)
            response = stack.enter_context(saving)
        digest = _write(_engine_pieces(response, tag), target)
        size_bytes = target.tell()
    write_atomic(digest_path(path), f"{digest}  {path.name}\n".encode())
    return Archive(path=path, image=image, size_bytes=size_bytes, sha256=digest)


def _write(image: Iterator[bytes], target: IO[bytes]) -> str:
    """Compress ``image`` into ``target``; the digest of what was written."""
    writer = _Hashing(target)
    # No name and no time in it: the same image is the same file.
    with gzip.GzipFile("", "wb", _COMPRESSION, writer, mtime=0) as compressed:
        for piece in image:
            compressed.write(piece)
    return writer.digest


class _Hashing:
    """A stream that hashes what goes through it."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._target.write(data)

    def flush(self) -> None:
        self._target.flush()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _engine_pieces(response: Any, tag: str) -> Iterator[bytes]:
    """The image piece by piece; a broken connection is not reported as a full disk."""
    with explained(tag):
        yield from response.iter_content(_PIECE)
