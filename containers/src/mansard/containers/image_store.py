"""The images that an engine has: found by name, listed, and known by their digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.containers.engine import Engine
from mansard.containers.engine_errors import explained
from mansard.measuring.manifest import Image

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


def image_identity(engine: Engine, name: str) -> Image:
    """Name and digest of the image called ``name``; raises ContainerError if it is not there."""
    with explained(name):
        return identity_of(engine.client.images.get(name))


def identity_of(image: Any) -> Image:
    """Name and digest of an image of the Docker SDK.

    The digest is the engine's own id, which is the hash of the image's configuration and so of
    all its layers. It stays the same when the image is saved and loaded elsewhere, and a
    container can be started by it; a registry's digest does neither.
    """
    tags: Sequence[str] = image.tags
    return Image(name=tags[0] if tags else str(image.id), digest=str(image.id))


def registry_digest(image: Any) -> str:
    """The digest that a pulled image has in its registry; empty for one that came otherwise."""
    known: Sequence[str] = image.attrs.get("RepoDigests") or ()
    return known[0].partition("@")[2] if known else ""


def find(client: Any, tag: str) -> Any:
    """The image with this tag; None where the engine has none. Raises ContainerError."""
    from docker.errors import ImageNotFound

    with explained(tag):
        try:
            return client.images.get(tag)
        except ImageNotFound:
            return None


def list_images(engine: Engine) -> tuple[Stored, ...]:
    """Mansard's images on the engine, the newest first."""
    with explained(engine.address):
        found = engine.client.images.list(filters={"label": NAME_LABEL})
    stored = [_stored(image, tag) for image in found for tag in image.tags]
    return tuple(sorted(stored, key=lambda each: (each.created, each.tag), reverse=True))


def _stored(image: Any, tag: str) -> Stored:
    labels: dict[str, str] = image.labels
    return Stored(
        name=labels.get(NAME_LABEL, "?"),
        tag=tag,
        digest=identity_of(image).digest,
        size_bytes=int(image.attrs["Size"]),
        version=labels.get(VERSION_LABEL, "?"),
        revision=labels.get(REVISION_LABEL, "?"),
        created=str(image.attrs.get("Created") or ""),
    )
