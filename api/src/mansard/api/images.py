"""The container images that measurements run in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.result import Result
from mansard.containers.engine import connect
from mansard.containers.images.building import BuiltImage, Order, library_lines, ready_image
from mansard.containers.images.building import build_image as build
from mansard.containers.images.fitting import (
    FittingImage,
    choose_image,
    confirming,
    quietly,
    why_not,
)
from mansard.containers.images.loading import load_image as load
from mansard.containers.images.store import Archive, Stored
from mansard.containers.images.store import list_images as stored_images
from mansard.containers.images.store import save_image as save
from mansard.containers.images.table import Image, ImageTable, user_table
from mansard.core.errors import ContainerError, MansardError
from mansard.device.identity import identify
from mansard.device.system import board_root
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.core.records import MachineIdentity
    from mansard.measuring.manifest import ContainerImage as LoadedImage

_DIGEST_CHARACTERS = 19  # sha256: and twelve more, as Docker shows them


class HereImage(msgspec.Struct, frozen=True):
    """An image that an engine has. ``fits``: ``yes``, or ``no`` and why not this machine."""

    image: str
    tag: str
    size_bytes: int
    digest: str
    revision: str
    fits: str


class TableImage(msgspec.Struct, frozen=True):
    """An image that can be built. ``cuda``: its version; None: the image is for CPUs alone."""

    image: str
    base: str
    cuda: str | None
    python: str
    fits: str


class ImageList(Result, frozen=True):
    """Images that an engine has, and all of the table."""

    built: tuple[HereImage, ...]
    known: tuple[TableImage, ...]


def fit_image(
    name: str | None = None, board: Path | None = None, images: Path | None = None
) -> FittingImage:
    """Which image fits a machine, and why; asks neither engine nor network.

    ``name``: an image of the table, which has to fit. ``board``: root folder of the machine,
    this one by default. ``images``: TOML file that adds or changes images. Raises UsageError,
    InputError, and ContainerError where none fits.
    """
    return choose_image(_machine(board), user_table(images), name=name)


def list_images(
    board: Path | None = None, images: Path | None = None, engine: str | None = None
) -> ImageList:
    """The images that are built here, and all of the table with what they are for.

    ``engine``: address of the container engine, unix:///…. Raises ContainerError without one.
    """
    machine, table = _machine(board), user_table(images)
    with connect(engine) as connected:
        stored = stored_images(connected)
    known = tuple(
        TableImage(
            image=image.name,
            base=image.base,
            cuda=image.cuda or None,
            python=image.python,
            fits=_fits(image, table, machine),
        )
        for image in table.images
    )
    return ImageList(_stored_rows(stored, table, machine), known)


def _stored_rows(
    stored: Sequence[Stored], table: ImageTable, machine: MachineIdentity
) -> tuple[HereImage, ...]:
    """The images that an engine has, with whether each is for ``machine``."""
    by_name = {image.name: image for image in table.images}
    return tuple(
        HereImage(
            image=built.name,
            tag=built.tag,
            size_bytes=built.size_bytes,
            digest=built.digest[:_DIGEST_CHARACTERS],
            revision=built.revision[:12],
            fits=_fits(by_name[built.name], table, machine)
            if built.name in by_name
            else "no: the table has no such image",
        )
        for built in stored
    )


def _fits(image: Image, table: ImageTable, machine: MachineIdentity) -> str:
    try:
        reason = why_not(image, machine, table)
    except MansardError as error:  # a board that does not tell its release
        reason = error.what
    return "yes" if reason is None else f"no: {reason}"


def build_image(
    name: str | None = None,
    board: Path | None = None,
    images: Path | None = None,
    *,
    engine: str | None = None,
    wheels: Path | None = None,
    is_offline: bool = False,
    reporter: Reporter = SILENT,
) -> BuiltImage:
    """Build the image that fits a machine, or the one of that name; ``reporter`` is asked first.

    ``wheels``: folder of wheels to install from instead of an index. ``is_offline``: neither
    pull nor build with a network. An image that is there already is not built again. Raises
    ContainerError, InputError, StorageError, and UsageError for a no.
    """
    fit = _find_image(name, board, images)
    reporter.note(f"image {fit.image.name}: {fit.why}")
    order = Order(
        wheels=wheels,
        offline=is_offline,
        confirm=confirming(reporter.note, reporter.ask),
        tell=quietly(reporter.note),
    )
    with connect(engine) as connected:
        return build(connected, fit.image, order)


def save_image(
    path: Path,
    name: str | None = None,
    board: Path | None = None,
    images: Path | None = None,
    engine: str | None = None,
) -> Archive:
    """Save the image of this version as a file (.tar.gz), with its digest beside it.

    Raises ContainerError where it is not built yet, StorageError.
    """
    fit = _find_image(name, board, images)
    with connect(engine) as connected:
        ready = ready_image(connected, fit.image)
        if ready is None:
            raise ContainerError(
                f"the image {fit.image.name} of this version is not built yet",
                where=connected.address,
                fix="run 'mansard data image build'",
            )
        return save(connected, ready.tag, path)


def load_image(path: Path, images: Path | None = None, engine: str | None = None) -> LoadedImage:
    """Load a saved image after checking its digest and its content.

    Raises InputError where the file does not hold one image of the table, built by this version
    for this engine's processor; ContainerError, StorageError.
    """
    with connect(engine) as connected:
        return load(connected, path, user_table(images))


def list_libraries(
    name: str | None = None, board: Path | None = None, images: Path | None = None
) -> tuple[str, ...]:
    """What an image installs, one requirement a line, for ``pip download``."""
    return library_lines(_find_image(name, board, images).image)


def _find_image(name: str | None, board: Path | None, images: Path | None) -> FittingImage:
    """The image of that name wherever it is for, or the one that fits the machine."""
    table = user_table(images)
    if name is not None:
        return FittingImage(table.image(name), "it was asked for")
    return choose_image(_machine(board), table)


def _machine(board: Path | None) -> MachineIdentity:
    return identify(board_root(board))
