"""Building an image: its libraries first, where they are not there yet, then Mansard's rooms."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mansard.containers.build_step import remove_build_stage, run_step
from mansard.containers.context import Step, libraries_step, rooms_step
from mansard.containers.engine import Engine
from mansard.containers.image_store import BASE_DIGEST_LABEL, find, identity_of, registry_digest
from mansard.containers.image_table import Image
from mansard.containers.pull import Confirm, ensure_base
from mansard.containers.wheels import find_python, find_wheels
from mansard.core.errors import ContainerError
from mansard.core.revision import read_commit

Tell = Callable[[str], None]
UNKNOWN_COMMIT = "unknown"  # of an installed Mansard, for the label


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is there to be run."""

    tag: str
    digest: str
    size_bytes: int
    build_s: float  # 0 where nothing had to be built
    was_there: bool


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How an image may be come by."""

    wheels: Path | None = None  # a folder to install from instead of the package index
    offline: bool = False  # neither pull nor build with a network
    confirm: Confirm = lambda _: True  # asked before anything is downloaded
    tell: Tell = lambda _: None  # gets every line of a build


def build_image(engine: Engine, image: Image, order: Order | None = None) -> Built:
    """The image of this very Mansard, built where it is not there yet.

    Raises ContainerError, InputError, StorageError, and UsageError where the download was
    refused. What was interrupted leaves no image with a name and no container.
    """
    ready = ready_image(engine, image)
    if ready is not None:
        return ready
    order = order or Order()
    check_architecture(engine, image)
    libraries, rooms = _steps(image)
    started_s = time.monotonic()
    if find(engine.client, libraries.tag) is None:
        _build_libraries(engine, image, libraries, order)
    run_step(engine, rooms, network="none", tell=order.tell)
    there = find(engine.client, rooms.tag)
    if there is None:
        raise ContainerError("the engine built the image and does not have it", where=rooms.tag)
    return _built(there, rooms.tag, build_s=time.monotonic() - started_s, was_there=False)


def ready_image(engine: Engine, image: Image) -> Built | None:
    """The image of this very Mansard where it is there; None where it must be built."""
    tag = _steps(image)[1].tag
    there = find(engine.client, tag)
    return None if there is None else _built(there, tag, build_s=0.0, was_there=True)


def _steps(image: Image) -> tuple[Step, Step]:
    """The two images that make ``image``: its libraries, and this very Mansard on them."""
    libraries = libraries_step(image)
    return libraries, rooms_step(image, libraries, read_commit() or UNKNOWN_COMMIT)


def check_architecture(engine: Engine, image: Image) -> None:
    """Raises ContainerError where the engine's processor is none that the image is for."""
    found = engine.facts.architecture
    if found and found not in image.architectures:
        raise ContainerError(
            f"the image {image.name} is for {' and '.join(image.architectures)}, "
            f"and the engine runs on {found}",
            where=engine.address,
            fix="build it on the machine that it is for: HOST=user@board",
        )


def _built(there: Any, tag: str, *, build_s: float, was_there: bool) -> Built:
    return Built(
        tag=tag,
        digest=identity_of(there).digest,
        size_bytes=int(there.attrs["Size"]),
        build_s=build_s,
        was_there=was_there,
    )


def _build_libraries(engine: Engine, image: Image, step: Step, order: Order) -> None:
    if order.offline and order.wheels is None:
        raise ContainerError(
            f"the image {image.name} is not on this machine, and nothing may be downloaded",
            where=engine.address,
            fix="'mansard image load FILE' with one that was saved, or build it with --wheels",
        )
    large = {} if order.wheels is None else find_wheels(order.wheels)
    ensure_base(
        engine,
        image,
        offline=order.offline,
        wheels=order.wheels,
        confirm=order.confirm,
        tell=order.tell,
    )
    # The host's network and not the bridge, which Docker 28 cannot set up on JetPack 6
    # (moby#49557). From wheels nothing is fetched, except what apt brings.
    isolated = order.offline or (order.wheels is not None and image.recipe != "ubuntu")
    network = "none" if isolated else "host"
    downloaded = None
    try:
        if image.recipe == "standalone":
            python = find_python(engine.facts.architecture, order.wheels)
            downloaded = python if order.wheels is None else None
            large = {**large, "python.tar.gz": python}
        labels = {BASE_DIGEST_LABEL: _base_digest(engine, image)}
        run_step(engine, step, network=network, tell=order.tell, large=large, labels=labels)
    finally:
        if downloaded is not None:
            downloaded.unlink(missing_ok=True)
        remove_build_stage(engine)


def _base_digest(engine: Engine, image: Image) -> str:
    base = find(engine.client, image.base)
    return "" if base is None else registry_digest(base)
