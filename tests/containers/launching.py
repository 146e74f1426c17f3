"""Launches for tests: this repository's own Python, mounted into an image of empty folders."""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import Any

from mansard.containers.settings import ContainerLaunch, Mount, User
from tests.containers.throwaway import host_folders

SOMEBODY = User(uid=1234, gid=1235, why="the test")  # in no group of this machine


def launch(image: str, *command: str, **changes: Any) -> ContainerLaunch:
    """Python of this machine in ``image``, with ``command`` behind it."""
    settings: dict[str, Any] = {
        "image": image,
        "command": (sys.executable, *command),
        "user": SOMEBODY,
        "mounts": tuple(Mount(path, PurePosixPath(path)) for path in host_folders()),
        **changes,
    }
    return ContainerLaunch(**settings)


def all_containers(client: Any) -> list[Any]:
    """Every container of the engine, running or not."""
    found: list[Any] = client.api.containers(all=True)
    return found
