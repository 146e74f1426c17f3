"""``mansard image``: the container images that measurements run in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mansard.cli.boards import BoardOption, board_root

if TYPE_CHECKING:
    from mansard.containers.engine import Engine
    from mansard.containers.images.fitting import Fit
    from mansard.containers.images.table import ImageTable
    from mansard.core.records import MachineIdentity

image_app = typer.Typer(help="The container images that measurements run in.", no_args_is_help=True)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
_Name = Annotated[
    str | None, typer.Argument(help="An image of the table; by default the one that fits.")
]
_Images = Annotated[
    Path | None,
    typer.Option("--images", help="TOML file that adds or changes images.", readable=False),
]
_Engine = Annotated[str | None, typer.Option(help="Address of the container engine, unix:///….")]


@image_app.command("fit")
def fit_image(
    name: _Name = None, board: BoardOption = None, images: _Images = None, as_json: _Json = False
) -> None:
    """Say which image fits this machine and why; asks neither engine nor network."""
    from mansard.cli.console import print_json
    from mansard.containers.images.fitting import choose_image
    from mansard.containers.images.pulling import LIBRARIES_BYTES

    fit = choose_image(_machine(board), _table(images), name=name)
    if as_json:
        print_json({"image": fit.image, "why": fit.why})
        return
    size = LIBRARIES_BYTES[fit.image.libraries] / 1e6
    typer.echo(f"{fit.image.name}: {fit.why}")
    typer.echo(f"base {fit.image.base}, libraries {fit.image.libraries} (about {size:.0f} MB)")
    typer.echo(f"facts: {fit.image.source}")


@image_app.command("list")
def list_images(
    board: BoardOption = None,
    images: _Images = None,
    engine: _Engine = None,
    as_json: _Json = False,
) -> None:
    """List the images that are built here, and all of the table with what they are for."""
    from mansard.cli.console import print_json, print_table
    from mansard.cli.image_rows import (
        IMAGE_COLUMNS,
        STORED_COLUMNS,
        image_rows,
        stored_rows,
    )
    from mansard.containers.engine import connect
    from mansard.containers.images.store import list_images as stored_images

    machine, table = _machine(board), _table(images)
    with connect(engine) as connected:
        stored = stored_images(connected)
    known, built = image_rows(table, machine), stored_rows(stored, table, machine)
    if as_json:
        print_json({"built": built, "table": known})
        return
    if built:
        print_table("Images here", STORED_COLUMNS, [tuple(row.values()) for row in built])
    rows = [tuple(row.values()) for row in known]
    print_table("Images that can be built", IMAGE_COLUMNS, rows)


@image_app.command("build")
def build_image(
    name: _Name = None,
    board: BoardOption = None,
    images: _Images = None,
    engine: _Engine = None,
    wheels: Annotated[
        Path | None,
        typer.Option(help="Folder of wheels to install from; no index.", readable=False),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Neither pull nor build with a network.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Download without asking.")] = False,
    as_json: _Json = False,
) -> None:
    """Build the image that fits this machine, and print its size and the time it took.

    What would be downloaded is said first. An image that is there already is not built again.
    """
    from mansard.cli.agreeing import asker
    from mansard.cli.console import note, print_json
    from mansard.containers.images.building import Order
    from mansard.containers.images.building import build_image as build
    from mansard.containers.images.needed import confirming, quietly

    fit = _fit(name, board, images)
    note(f"image {fit.image.name}: {fit.why}")
    order = Order(
        wheels=wheels,
        offline=offline,
        confirm=confirming(note, asker(agreed=yes)),
        tell=quietly(note),
    )
    with _connected(engine) as connected:
        built = build(connected, fit.image, order)
    if as_json:
        print_json(built)
        return
    took = "was there already" if built.was_there else f"built in {built.build_s:.1f} s"
    typer.echo(f"{built.tag}  {built.size_bytes / 1e6:.0f} MB, {took}")
    typer.echo(built.digest)


@image_app.command("save")
def save_image(
    path: Annotated[Path, typer.Argument(help="The file to write, .tar.gz.", readable=False)],
    name: _Name = None,
    board: BoardOption = None,
    images: _Images = None,
    engine: _Engine = None,
    as_json: _Json = False,
) -> None:
    """Save the image of this version as a file, with its digest beside it."""
    from mansard.cli.console import print_json
    from mansard.containers.images.building import ready_image
    from mansard.containers.images.store import save_image as save
    from mansard.core.errors import ContainerError

    fit = _fit(name, board, images)
    with _connected(engine) as connected:
        ready = ready_image(connected, fit.image)
        if ready is None:
            raise ContainerError(
                f"the image {fit.image.name} of this version is not built yet",
                where=connected.address,
                fix="run 'mansard image build'",
            )
        saved = save(connected, ready.tag, path)
    if as_json:
        print_json({"file": str(saved.path), "sha256": saved.sha256, "image": saved.image})
        return
    typer.echo(f"{saved.image.name}  {saved.size_bytes / 1e6:.0f} MB in {saved.path}")
    typer.echo(f"sha256 {saved.sha256}; take {saved.path.name}.sha256 along")


@image_app.command("load")
def load_image(
    path: Annotated[Path, typer.Argument(help="A file that was saved.", readable=False)],
    engine: _Engine = None,
    as_json: _Json = False,
) -> None:
    """Load an image that was saved, after its digest was found right."""
    from mansard.cli.console import print_json
    from mansard.containers.images.store import load_image as load

    with _connected(engine) as connected:
        loaded = load(connected, path)
    if as_json:
        print_json(loaded)
        return
    for image in loaded:
        typer.echo(f"{image.name}  {image.digest}")


@image_app.command("libraries")
def list_libraries(name: _Name = None, board: BoardOption = None, images: _Images = None) -> None:
    """Print what an image installs, for filling a folder of wheels with 'pip download'."""
    from mansard.containers.images.building import library_lines

    typer.echo("\n".join(library_lines(_fit(name, board, images).image)))


@contextmanager
def _connected(address: str | None) -> Iterator[Engine]:
    from mansard.containers.engine import connect

    with connect(address) as engine:
        yield engine


def _machine(board: Path | None) -> MachineIdentity:
    from mansard.device.identity import identify

    return identify(board_root(board))


def _table(images: Path | None) -> ImageTable:
    from mansard.containers.images.table import user_table

    return user_table(images)


def _fit(name: str | None, board: Path | None, images: Path | None) -> Fit:
    """The image of that name wherever it is for, or the one that fits the machine."""
    from mansard.containers.images.fitting import Fit, choose_image

    table = _table(images)
    if name is not None:
        return Fit(table.image(name), "it was asked for")
    return choose_image(_machine(board), table)
