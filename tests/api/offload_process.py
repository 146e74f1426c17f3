"""``mansard offload serve`` in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mansard.inference.servers.connection import is_listening, parse_address
from tests.waiting import awaited


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(
    model: Path, *options: str, port: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address and the process of ``mansard offload serve``."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "mansard.cli", "offload", "serve", str(model)]
    command += ["--listen", f"127.0.0.1:{port}", "--threads", "1", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        assert awaited(
            lambda: process.poll() is not None or is_listening(parse_address(address)), 60
        )
        assert process.poll() is None, process.communicate()
        yield address, process
    finally:
        process.kill()
        process.communicate()
