"""Open files: none is left by a container that has ended, and none has too large a number."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fleets.boards import engines, made_boards

from mansard.containers.engine import connect
from mansard.containers.launch import engine_time_s, remove_leftovers
from mansard.containers.measurer import probe_in_container
from mansard.containers.settings import launch_for
from mansard.containers.stream import Attached


def n_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_container_that_has_ended_leaves_no_connection(tmp_path: Path) -> None:
    # The SDK keeps a connection for each URL, and each container has URLs of its own.
    (board,) = boards = made_boards(tmp_path, 1, 0.0)
    with engines(tmp_path, boards), connect(f"unix://{board.socket}") as engine:
        launch = launch_for(engine, None, "sha256:" + "1" * 64, board=Path("/"), processor="cpu")
        counts = []
        for _ in range(3):
            remove_leftovers(engine)
            engine_time_s(engine.client)
            probe_in_container(engine, launch, "cpu")
            counts.append(n_open())
    assert counts[0] == counts[1] == counts[2]


@pytest.fixture
def many_files() -> Iterator[None]:
    """The next file that is opened has a number that select() does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200 if hard == resource.RLIM_INFINITY else min(hard, 1200)
    if wanted < 1100:
        pytest.skip("this user may open too few files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with ExitStack() as stack:
        null = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, null)
        while (number := os.dup(null)) < 1030:
            stack.callback(os.close, number)
        stack.callback(os.close, number)
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_stream_may_have_any_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        assert ours.fileno() > 1023
        attached = Attached(ours)
        theirs.sendall(b"\1\0\0\0\0\0\0\2hi")
        chunk = next(iter(attached.receive(5)))
        assert (chunk.output, chunk.data) == ("stdout", b"hi")
        attached.send(b"answer")
        with pytest.raises(TimeoutError):
            list(attached.receive(0.05))
        assert theirs.recv(100) == b"answer"
        attached.close()
