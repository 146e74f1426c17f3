"""One throwaway Docker daemon for each worker, and an image that runs this repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from mansard.containers.engine import ContainerEngine, connect
from mansard.core.storage.leftovers import temporary_folder
from tests.cli.bench_process import Start
from tests.containers.image_here import Here, build_here
from tests.containers.launching import all_containers
from tests.containers.throwaway import Daemon, import_bare_image, throwaway_daemon, why_not
from tests.waiting import awaited


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: a socket's may have 107 bytes."""
    with temporary_folder() as path:  # what a killed session left goes with the next one
        yield path


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """A Docker daemon without network; the tests that ask for it skip where there can be none."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        try:
            started = stack.enter_context(throwaway_daemon())
        except RuntimeError as error:
            pytest.skip(str(error))
        yield started


@pytest.fixture(scope="session")
def docker_client(daemon: Daemon) -> Iterator[Any]:
    """A client of the Docker SDK at the throwaway daemon."""
    client = daemon.connect()
    yield client
    client.close()


@pytest.fixture(autouse=True)
def nothing_left_by_a_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves the daemon as it found it, whichever tests run before and after it.

    Images of fixtures with a wider scope are there before this one begins, so they stay.
    """
    if "daemon" not in request.fixturenames:
        yield
        return
    client = request.getfixturevalue("docker_client")
    before = image_names(client)
    yield
    assert awaited(lambda: not remove_all(client))
    for name in image_names(client) - before:
        with suppress(ImageNotFound):  # its other name was the last one
            client.api.remove_image(name, force=True, noprune=True)


def image_names(client: Any) -> set[str]:
    """Every name of an image on the daemon: tags, and digests of what was pulled."""
    images = client.api.images()
    kinds = ("RepoTags", "RepoDigests")
    names = {name for image in images for kind in kinds for name in image[kind] or ()}
    return {name for name in names if not name.startswith("<none>")}


def remove_all(client: Any) -> list[Any]:
    """Remove every container; returns those that were there."""
    found = all_containers(client)
    for each in found:
        with suppress(APIError):  # it removes itself at this moment
            client.api.remove_container(each["Id"], force=True)
    return found


@pytest.fixture
def engine(daemon: Daemon) -> Iterator[ContainerEngine]:
    """The throwaway daemon, connected as the product does it."""
    with connect(daemon.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def bare_image(docker_client: Any) -> str:
    """The id of an image of empty folders; with ``host_folders`` mounted it runs this package."""
    return import_bare_image(docker_client)


@pytest.fixture(scope="session")
def built_image(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Here:
    """The CPU's image, really built on the daemon from what is installed here: some 20 s."""
    try:
        return build_here(daemon.address, tmp_path_factory.mktemp("image"))
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def begin_bench(daemon: Daemon, built_image: Here, network: Path, start: Start) -> Start:
    """Begins a bench of the profile "brief" in ``built_image``, with further options."""
    command = [sys.executable, "-m", "mansard.cli", "bench", "--container-engine", daemon.address]
    command += ["--images", str(built_image.table), "--offline", "--profile", "brief"]

    def begin(*options: str, **of_process: Any) -> subprocess.Popen[str]:
        return start([*command, *options, str(network)], **of_process)

    return begin
