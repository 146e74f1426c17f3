"""Building an image: its libraries first, where they are not there yet, then Mansard's rooms.

There are two steps, and an image for each. The libraries are hundreds of megabytes, need a
network or a folder of wheels, and hardly ever change; the rooms are a megabyte of Python and
change with every version. So a new Mansard needs two seconds and no network. For each step
the daemon gets a tar of a recipe, a list of libraries, and our own rooms.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import os
import re
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import msgspec

from mansard.containers.answers import LOG, answer, messages
from mansard.containers.engine import ContainerEngine
from mansard.containers.engine_errors import explain_build, explained
from mansard.containers.images.pulling import Confirm, ensure_base
from mansard.containers.images.store import (
    BASE_DIGEST_LABEL,
    find,
    find_base,
    identity_of,
    registry_digest,
)
from mansard.containers.images.table import Image, version_key
from mansard.containers.images.wheels import find_python, find_wheels
from mansard.core.errors import ContainerError, InputError
from mansard.core.hashing import content_hash, file_hash
from mansard.core.storage.files import read_whole, storage_error
from mansard.core.text import masked
from mansard.core.version import VERSION, read_commit

RECIPES = Path(__file__).parents[1] / "recipes"
ON_DEVICE_ROOMS = ("core", "device", "measuring", "microbench", "inference")
_IGNORED = frozenset({"__pycache__"})
_EPOCH_S = 0  # of files in the tar: the same content is the same tar
REPOSITORY = "mansard"


class BuildStep(msgspec.Struct, frozen=True):
    """One image to build: its name, its files by their paths in the tar, and its arguments."""

    tag: str
    files: Mapping[str, bytes]
    arguments: Mapping[str, str]
    content: str  # hash of all that makes the image what it is


def libraries_step(image: Image) -> BuildStep:
    """The image that holds the libraries of ``image``; wheels and Python are added later."""
    files = {
        "Dockerfile": _recipe(image.recipe, "Dockerfile"),
        "install.py": _recipe("install.py"),
        "libraries.txt": _recipe("lists", f"{image.libraries}.txt"),
    }
    content = content_hash(({path: file_hash(data) for path, data in files.items()}, image.base))
    return BuildStep(
        tag=f"{REPOSITORY}/{image.name}-libraries:{content}",
        files=MappingProxyType(files),
        arguments=MappingProxyType({"BASE": image.base}),
        content=content,
    )


def rooms_step(image: Image, libraries: BuildStep, revision: str) -> BuildStep:
    """The image that measures: the libraries, and the rooms of this very Mansard.

    ``revision`` is the commit, or a word for why there is none; it is a label alone, and
    the same rooms of another commit are the same image.
    """
    files = {"Dockerfile": _recipe("rooms", "Dockerfile"), **dict(room_files())}
    hashes = {path: file_hash(data) for path, data in files.items()}
    content = content_hash((hashes, libraries.content, VERSION))
    arguments = {
        "LIBRARIES": libraries.tag,
        "NAME": image.name,
        "VERSION": VERSION,
        "REVISION": revision,
        "SOURCE": content,
        "BASE": image.base,
    }
    return BuildStep(
        tag=f"{REPOSITORY}/{image.name}:{VERSION}-{content}",
        files=MappingProxyType(files),
        arguments=MappingProxyType(arguments),
        content=content,
    )


def write_tar(stream: IO[bytes], files: Mapping[str, bytes], large: Mapping[str, Path]) -> None:
    """A tar of ``files`` and of the files that ``large`` names, all of root and readable."""
    with tarfile.open(fileobj=stream, mode="w") as archive:
        _add_folder(archive, "wheels")  # COPY wants it to be there, even empty
        for path, data in sorted(files.items()):
            archive.addfile(_entry(path, len(data)), io.BytesIO(data))
        for path, source in sorted(large.items()):
            with source.open("rb") as content:
                archive.addfile(_entry(path, source.stat().st_size), content)


def _add_folder(archive: tarfile.TarFile, path: str) -> None:
    entry = _entry(path, 0)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(entry)


def _entry(path: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = size, 0o644, _EPOCH_S
    return entry


def _recipe(*parts: str) -> bytes:
    return read_whole(RECIPES.joinpath(*parts))


def room_files() -> Iterator[tuple[str, bytes]]:
    """The on-device rooms as they are installed here, by their paths in the image."""
    for room in ON_DEVICE_ROOMS:
        folder = _room_folder(room)
        for path in sorted(folder.rglob("*")):
            within = path.relative_to(folder)
            if path.is_file() and not _IGNORED & set(within.parts):
                yield f"rooms/mansard/{room}/{within.as_posix()}", read_whole(path)


def _room_folder(room: str) -> Path:
    spec = importlib.util.find_spec(f"mansard.{room}")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise InputError(
            f"the room {room} is not installed as files", fix="install mansard with pip"
        )
    return Path(places[0])


# What an image installs, for the Python that it has.


# The only markers in the lists: "python_full_version < '3.11'", and == '3.11.*'.
_MARKER = re.compile(r"python_full_version (<|>=|==) '([0-9.]+?)(?:\.\*)?'")


def library_lines(image: Image) -> tuple[str, ...]:
    """``name==version`` for each library; other Pythons' versions are left out.

    pip judges the markers by the Python that it runs on itself, whatever ``--python-version``
    says, so a list for another machine must be without them. Hashes are left out: wheels that
    were fetched or built elsewhere are their owner's.
    """
    text = read_whole(RECIPES / "lists" / f"{image.libraries}.txt").decode()
    pins = [line for line in text.splitlines() if line[:1] not in {"", "#", " "}]
    lines = (pin.removesuffix(" \\").partition(" ; ") for pin in pins)
    python = version_key(image.python)[:2]
    return tuple(pin for pin, _, marker in lines if not marker or _holds(marker, python))


def _holds(marker: str, python: tuple[int, ...]) -> bool:
    match = _MARKER.fullmatch(marker)
    if match is None:
        raise ValueError(f"unknown marker: {marker}")
    key = version_key(match[2])
    if match[1] == "==":
        return python == key
    return python < key if match[1] == "<" else python >= key


# One run of the engine's builder: the classic one, which needs nothing but the engine.


_KEPT_LINES = 200
_BUILD_STAGE = "mansard.stage=build"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Arguments that every Dockerfile has, and that leave no trace in the image.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_NOTHING: Mapping[str, Path] = MappingProxyType({})
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


def run_step(
    engine: ContainerEngine,
    step: BuildStep,
    *,
    network: str,
    tell: Callable[[str], None],
    large: Mapping[str, Path] = _NOTHING,
    labels: Mapping[str, str] = _NO_LABELS,
) -> None:
    """Build one image; raises ContainerError or StorageError.

    ``large`` are files for the context that are not read into memory. Whatever ends the
    build early ends the engine's part as well: it sees that its connection is closed, removes its
    container, and gives no name.
    """
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    tell(f"building {step.tag}")
    parameters = {
        "t": step.tag,
        "buildargs": json.dumps({**_proxies(network), **step.arguments}),
        "labels": json.dumps({"mansard.content": step.content, **labels}),
        "networkmode": network,
        "rm": "1",
        "forcerm": "1",  # a build that fails leaves no container
    }
    with (
        _context(step, large) as context,
        explained(step.tag, functools.partial(explain_build, said=said)),
        answer(
            engine.client,
            "POST",
            "/build",
            limits=LOG,
            parameters=parameters,
            content=context,
        ) as response,
    ):
        for message in messages(response):
            for line in masked(_COLOUR.sub("", str(message.get("stream") or ""))).splitlines():
                if line.strip():
                    said.append(line)
                    tell(line.rstrip())
            if message.get("error"):
                raise explain_build(str(message["error"]), step.tag, said)


def remove_build_stage(engine: ContainerEngine) -> None:
    """Remove what only the build needed: wheels, pip, and unpacked files."""
    with explained(engine.address):
        engine.client.images.prune(filters={"dangling": True, "label": _BUILD_STAGE})


def _proxies(network: str) -> dict[str, str]:
    """The proxies of this process: a build on the host's network goes through them as well."""
    if network == "none":
        return {}
    return {name: os.environ[name] for name in _PROXIES if name in os.environ}


@contextlib.contextmanager
def _context(step: BuildStep, large: Mapping[str, Path]) -> Iterator[IO[bytes]]:
    """The tar as a temporary file without a name: it is gone whatever happens."""
    is_written = False
    try:
        with tempfile.TemporaryFile(prefix="mansard-context-") as stream:
            write_tar(stream, step.files, large)
            stream.seek(0)
            is_written = True
            yield stream
    except OSError as error:
        if is_written:  # it is the caller's own
            raise
        raise storage_error(error, Path(tempfile.gettempdir())) from error


Tell = Callable[[str], None]
UNKNOWN_COMMIT = "unknown"  # of an installed Mansard, for the label


class BuiltImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is ready to run."""

    tag: str
    digest: str
    size_bytes: int
    build_s: float  # 0 where nothing had to be built
    was_there: bool


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How an image may be obtained."""

    wheels: Path | None = None  # a folder to install from instead of the package index
    offline: bool = False  # neither pull nor build with a network
    confirm: Confirm = lambda _: True  # asked before anything is downloaded
    tell: Tell = lambda _: None  # gets every line of a build


def build_image(engine: ContainerEngine, image: Image, order: Order | None = None) -> BuiltImage:
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


def ready_image(engine: ContainerEngine, image: Image) -> BuiltImage | None:
    """The image of this very Mansard where it is there; None where it must be built."""
    tag = _steps(image)[1].tag
    there = find(engine.client, tag)
    return None if there is None else _built(there, tag, build_s=0.0, was_there=True)


def image_tag(image: Image) -> str:
    """The name under which this version of Mansard builds, saves and looks for the image."""
    return _steps(image)[1].tag


def _steps(image: Image) -> tuple[BuildStep, BuildStep]:
    """The two images that make ``image``: its libraries, and this very Mansard on them."""
    libraries = libraries_step(image)
    return libraries, rooms_step(image, libraries, read_commit() or UNKNOWN_COMMIT)


def check_architecture(engine: ContainerEngine, image: Image) -> None:
    """Raises ContainerError if the image is not for the engine's processor."""
    architecture = engine.facts.architecture
    if architecture and architecture not in image.architectures:
        raise ContainerError(
            f"the image {image.name} is for {' and '.join(image.architectures)}, "
            f"and the engine runs on {architecture}",
            where=engine.address,
            fix="build it on the machine that it is for: HOST=user@board",
        )


def _built(there: Any, tag: str, *, build_s: float, was_there: bool) -> BuiltImage:
    with explained(tag):
        size_bytes = int(there.attrs["Size"])
    digest = identity_of(there).digest
    return BuiltImage(
        tag=tag, digest=digest, size_bytes=size_bytes, build_s=build_s, was_there=was_there
    )


def _build_libraries(engine: ContainerEngine, image: Image, step: BuildStep, order: Order) -> None:
    if order.offline and order.wheels is None:
        raise ContainerError(
            f"the image {image.name} is not on this machine, and nothing may be downloaded",
            where=engine.address,
            fix="'mansard data image load FILE' with one that was saved, or build it with --wheels",
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
    with contextlib.ExitStack() as stack:
        stack.callback(remove_build_stage, engine)
        if image.recipe == "standalone":
            python = find_python(engine.facts.architecture, order.wheels)
            large = {**large, "python.tar.gz": stack.enter_context(python)}
        base = find_base(engine.client, image.base)
        name, digest = (image.base, "") if base is None else (base[0], registry_digest(base[1]))
        if name != image.base:
            order.tell(f"the base {name} was loaded from a file: its digest is not checked")
        run_step(
            engine,
            msgspec.structs.replace(step, arguments={**step.arguments, "BASE": name}),
            network=network,
            tell=order.tell,
            large=large,
            labels={BASE_DIGEST_LABEL: digest},
        )
