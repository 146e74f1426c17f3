"""Launches for tests: this repository's own Python, mounted into an image of empty folders."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
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


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Wait until ``condition`` holds; fails the test where it never does."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.05)


def all_containers(client: Any) -> list[Any]:
    """Every container of the engine, running or not."""
    found: list[Any] = client.api.containers(all=True)
    return found
