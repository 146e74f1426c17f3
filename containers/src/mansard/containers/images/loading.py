"""Loading a saved image of this Mansard, for the engine's processor, under the name in use here."""

from __future__ import annotations

import re
from pathlib import Path

from mansard.containers.answers import LOG, answer, messages
from mansard.containers.engine import ARCHITECTURES, ContainerEngine
from mansard.containers.engine_errors import explained
from mansard.containers.images.archive import Contents, read_archive, rewrite
from mansard.containers.images.building import check_architecture, image_tag
from mansard.containers.images.errors import explain_build
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
from mansard.core.storage.files import open_file, storage_error
from mansard.core.text import printable
from mansard.core.version import VERSION
from mansard.measuring.manifest import ContainerImage

_DIGEST_LINE = re.compile(rb"([0-9a-f]{64})  \S.*\n?")
_MOST_DIGEST_BYTES = 4096
# Docker leaves it out of a name. Where it is left out, podman 4.3 takes "localhost/".
_HUB = "docker.io/"
_SAVE = "save one of this version with 'mansard image save FILE'"
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


def _image_of(contents: Contents, path: Path, table: ImageTable) -> Image:
    """The entry of ``table`` that the image says it was built from."""
    name = contents.labels.get(NAME_LABEL, "")
    image = next((image for image in table.images if image.name == name), None)
    if image is None:
        told = f"the image {printable(name, 60)}, which is not in the table" if name else "no label"
        raise InputError(
            f"holds no image of Mansard's, but {printable(contents.tag, 100)} with {told}",
            where=str(path),
            fix=_SAVE,
        )
    return image


def _check_ours(engine: ContainerEngine, contents: Contents, tag: str, path: Path) -> None:
    """Refuse an image for another processor or of another version."""
    wanted = engine.facts.architecture
    found = ARCHITECTURES.get(contents.architecture, contents.architecture)
    if wanted and found != wanted:
        raise InputError(
            f"holds an image for {printable(found, 40)}, and the engine runs on {wanted}",
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
        found = sha256_of(path).encode()
    except FileNotFoundError as error:
        raise InputError(
            "is not there", where=str(reading), fix="copy the archive and its .sha256 together"
        ) from error
    except OSError as error:
        raise storage_error(error, reading) from error
    if expected is None or expected[1] != found:
        raise InputError(
            "is damaged or not complete: its digest is not the one beside it",
            where=str(path),
            fix="copy it again, with its .sha256",
        )
