"""One throwaway Docker daemon for each worker, and an image that runs this repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from mansard.containers.engine import Engine, connect
from tests.containers.image_here import Here, build_here
from tests.containers.throwaway import Daemon, import_bare_image, throwaway_daemon, why_not


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
