"""One throwaway Docker daemon for each worker, and an image that runs this repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.engine import Engine, connect
from mansard.core.leftovers import temporary_folder
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
def containers_of_one_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves on the daemon, because it failed, is gone before the next one begins."""
    if "daemon" not in request.fixturenames:
        yield
        return
    client = request.getfixturevalue("docker_client")
    yield
    assert awaited(lambda: not remove_all(client))


def remove_all(client: Any) -> list[Any]:
    """Remove every container; returns those that were there."""
    from docker.errors import APIError

    found = all_containers(client)
    for each in found:
        with suppress(APIError):  # it removes itself at this moment
            client.api.remove_container(each["Id"], force=True)
    return found


@pytest.fixture
def engine(daemon: Daemon) -> Iterator[Engine]:
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
