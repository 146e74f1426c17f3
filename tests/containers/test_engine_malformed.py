"""Answers of an engine that have the wrong form end in one of our errors.

Every field that is read gets values of every kind of JSON, and every page is replaced as a whole.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.containers.board_controller import board_controller
from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.engine_errors import explained
from mansard.containers.images.building import BuildStep, ready_image, run_step
from mansard.containers.images.pulling import pull
from mansard.containers.images.store import image_identity, list_images
from mansard.containers.images.table import read_table
from mansard.containers.launch import (
    engine_time_s,
    how_it_ended,
    launched,
    remove_leftovers,
    stop_containers,
)
from mansard.containers.settings import ContainerLaunch, User
from mansard.core.errors import ContainerError, ControllerLost, MansardError
from tests.containers.stand_in_engine import DOCKER_28, stand_in_engine
from tests.waiting import awaited

IMAGE = {
    "Id": "sha256:0ab",
    "RepoTags": ["mansard/cpu:1"],
    "RepoDigests": ["mansard/cpu@sha256:1"],
    "Size": 12,
    "Created": "2026-11-21T19:15:09Z",
    "Config": {"Labels": {"mansard.image": "cpu"}},
}
CONTAINER = {"Id": "c0", "Labels": {"mansard.owner": "x/1/2", "mansard.controller": "x/1/2"}}
EVENT = {"Action": "die", "Actor": {"Attributes": {"exitCode": "0"}}}
PAGES: dict[str, Any] = {
    **{page: content for page, (_, content) in DOCKER_28.items()},
    "/containers/json": [CONTAINER],
    "/volumes": {"Volumes": [{"Name": "v0", "Labels": {"mansard.owner": "x/1/2"}}]},
    "/containers/create": {"Id": "c0", "Warnings": []},
    "/containers/c0/json": {**CONTAINER, "State": {"Status": "running"}},
    "/containers/c0/attach": b"",  # its streams have ended
    "/containers/c0/start": {},
    "/images/json": [IMAGE],
    "/images/create": {"status": "Downloading", "id": "a", "progressDetail": {"total": 2}},
    "/build": {"stream": "Step 1"},
    "/events": EVENT,
    "cpu:1/json": IMAGE,
    "sha256:0ab/json": IMAGE,
}
LAUNCH = ContainerLaunch(image="x", command=("python3",), user=User(uid=1, gid=1, why="the test"))


def start(engine: ContainerEngine) -> None:
    with launched(engine, LAUNCH) as container:
        list(container.lines(lambda: 5))


def control(engine: ContainerEngine) -> None:
    with board_controller(engine, LAUNCH, PurePosixPath("/nowhere"), "bench"):
        pass


def end(engine: ContainerEngine) -> None:
    with explained(engine.address):
        how_it_ended(engine.client, "c0", engine_time_s(engine.client))


def build(engine: ContainerEngine) -> None:
    step = BuildStep("mansard/x:1", {"Dockerfile": b"FROM scratch"}, {}, "0")
    run_step(engine, step, network="none", tell=lambda _: None)


WORK: tuple[Callable[[ContainerEngine], object], ...] = (
    remove_leftovers,
    start,
    control,
    end,
    build,
    list_images,
    lambda engine: pull(engine, "debian:12"),
    lambda engine: engine.facts.free_bytes(),
    lambda engine: stop_containers(engine.address),
    lambda engine: image_identity(engine, "mansard/cpu:1"),
    lambda engine: ready_image(engine, read_table().images[0]),
)

NUMBERS = st.integers(-(10**25), 10**25) | st.floats() | st.sampled_from([0, -1, 10**400])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.just("\0")
NAMES = st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
# Bytes that are not JSON, or JSON too deep for a recursive reader.
RAW = st.sampled_from([
    b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b'{"Id": 1e999}', b"NaN",
    b'"\\ud800"', b"[1] trailing", b'{"Id":"a","Id":1}',
])  # fmt: skip


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside ``content``, and of itself."""
    yield path
    names = range(len(content)) if isinstance(content, list) else content
    for name in names if isinstance(content, dict | list) else ():
        yield from places(content[name], (*path, name))


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(content)
    changed[path[0]] = with_value(content[path[0]], path[1:], value)
    return changed


@st.composite
def answers(draw: st.DrawFn) -> dict[str, tuple[int, Any]]:
    """The pages of an engine, one of them spoilt."""
    page = draw(st.sampled_from(sorted(PAGES)))
    content = PAGES[page]
    if draw(st.booleans()):
        spoilt: Any = with_value(content, draw(st.sampled_from([*places(content)])), draw(VALUES))
    else:
        spoilt = draw(RAW)
    status = draw(st.sampled_from([200, 200, 200, 404, 409, 500]))
    return {**{name: (200, good) for name, good in PAGES.items()}, page: (status, spoilt)}


def do(pages: dict[str, tuple[int, Any]], number: int) -> None:
    """One thing that is done with an engine, at one that answers with ``pages``."""
    with (
        tempfile.TemporaryDirectory(prefix="mansard-") as folder,
        stand_in_engine(Path(folder), pages) as address,
        connect(address) as engine,
    ):
        WORK[number](engine)


@pytest.mark.parametrize("number", range(len(WORK)))
def test_the_stand_in_is_an_engine_where_nothing_is_spoilt(number: int) -> None:
    good = {name: (200, content) for name, content in PAGES.items()}
    # Nothing answers in its containers.
    with pytest.raises(ControllerLost) if WORK[number] is control else nullcontext():
        do(good, number)


def open_sockets() -> set[str]:
    """The sockets of this process; the kernel numbers them."""
    names = set()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by another thread since
            names.add(str(file.readlink()))
    return {name for name in names if name.startswith("socket:")}


@pytest.mark.parametrize("what", [start, control])
@pytest.mark.parametrize("page", ["create", "c0/attach", "c0/start"])
def test_a_container_that_does_not_start_leaves_no_connection(
    what: Callable[[ContainerEngine], None], page: str
) -> None:
    good = {name: (200, content) for name, content in PAGES.items()}
    before = open_sockets()
    with pytest.raises(ContainerError, match="not now"):
        do({**good, f"/containers/{page}": (500, {"message": "not now"})}, WORK.index(what))
    # The stand-in's threads close their ends a moment later.
    assert awaited(lambda: open_sockets() <= before)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(answers(), st.sampled_from(range(len(WORK))))
def test_whatever_an_engine_answers_the_error_is_ours(
    pages: dict[str, tuple[int, Any]], number: int
) -> None:
    with suppress(MansardError):
        do(pages, number)
