"""``mansard data image``: the container images that measurements run in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import mansard.api.images as container_images
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, print_json, print_lines, print_whole
from mansard.cli.options import (
    BoardOption,
    ContainerEngineOption,
    ForceOption,
    ImagesOption,
    JsonOption,
    check_outputs,
)
from mansard.cli.tables import print_table

_KNOWN_COLUMNS = ("image", "base", "CUDA", "Python", "for this machine")
_BUILT_COLUMNS = ("image", "tag", "size (MB)", "digest", "commit", "for this machine")


_Name = Annotated[
    str | None, typer.Argument(help="Image of the table; the one that fits by default.")
]


def fit_image(
    name: _Name = None,
    board: BoardOption = None,
    images: ImagesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which image fits this machine and why; needs neither engine nor network."""
    fit = container_images.fit_image(name, board, images)
    if as_json:
        print_json("image-fit", fit)
        return
    size = command_line.LIBRARIES_BYTES[fit.image.libraries] / 1e6
    print_lines(
        (
            f"{fit.image.name}: {fit.why}",
            f"base {fit.image.base}, libraries {fit.image.libraries} (about {size:.0f} MB)",
            f"facts: {fit.image.source}",
        )
    )


def list_images(
    board: BoardOption = None,
    images: ImagesOption = None,
    container_engine: ContainerEngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the images built here and all known images."""
    image_list = container_images.list_images(board, images, container_engine)
    if as_json:
        print_json("image-list", image_list)
        return
    print_images(image_list)


def print_images(image_list: results.ImageList) -> None:
    """Print the images that are there, and all that can be built."""
    if image_list.built:
        built = [
            (
                image.image,
                image.tag,
                f"{image.size_bytes / 1e6:.0f}",
                image.digest,
                image.revision,
                image.fits,
            )
            for image in image_list.built
        ]
        print_table("Images here", _BUILT_COLUMNS, built)
    known = [
        (image.image, image.base, image.cuda or "–", image.python, image.fits)
        for image in image_list.known
    ]
    print_table("Images that can be built", _KNOWN_COLUMNS, known)


def build_image(
    name: _Name = None,
    board: BoardOption = None,
    images: ImagesOption = None,
    container_engine: ContainerEngineOption = None,
    wheels: Annotated[
        Path | None,
        typer.Option(help="Folder of wheels to install from, without an index.", readable=False),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not pull; build without a network.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Download images without asking.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the image that fits this machine, and print its size and the time it took.

    Downloads are announced first. Existing images are not built again.
    """
    built = container_images.build_image(
        name,
        board,
        images,
        engine=container_engine,
        wheels=wheels,
        is_offline=offline,
        reporter=TerminalReporter(is_agreed=yes),
    )
    if as_json:
        print_json("image-build", built)
        return
    took = "was there already" if built.was_there else f"built in {built.build_s:.1f} s"
    print_whole(f"{built.tag}  {built.size_bytes / 1e6:.0f} MB, {took}", built.digest)


def save_image(
    path: Annotated[Path, typer.Argument(help="File to write, .tar.gz.", readable=False)],
    name: _Name = None,
    board: BoardOption = None,
    images: ImagesOption = None,
    container_engine: ContainerEngineOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Save the image of this version as a file, with its digest in a second file."""
    if not path.with_name(f"{path.name}.sha256").is_file():  # beside what was saved before
        check_outputs([path], force=force)
    saved = container_images.save_image(path, name, board, images, container_engine)
    if as_json:
        print_json("image-save", saved)
        return
    print_lines(
        (
            f"{saved.image.name}  {saved.size_bytes / 1e6:.0f} MB in {saved.path}",
            f"sha256 {saved.sha256}; copy {saved.path.name}.sha256 too",
        )
    )


def load_image(
    path: Annotated[Path, typer.Argument(help="Saved file.", readable=False)],
    images: ImagesOption = None,
    container_engine: ContainerEngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a saved image after checking its digest and its content."""
    loaded = container_images.load_image(path, images, container_engine)
    if as_json:
        print_json("image-load", {"image": loaded})
        return
    print_whole(f"{loaded.name}  {loaded.digest}")


def list_libraries(
    name: _Name = None,
    board: BoardOption = None,
    images: ImagesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the libraries of an image, for 'pip download'."""
    lines = command_line.list_libraries(name, board, images)
    if as_json:
        print_json("image-libraries", {"libraries": lines})
    else:
        print_whole(*lines)
