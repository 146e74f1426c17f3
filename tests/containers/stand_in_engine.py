"""An engine that answers what it is told to: for engines that cannot be had here."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

# Of the end of a path: status, and what becomes JSON, or bytes, or makes all that is sent.
Answers = Mapping[str, tuple[int, Any]]

# What Docker 28 with CDI on says, shortened to what is looked at.
DOCKER_28: dict[str, tuple[int, Any]] = {
    "/version": (
        200,
        {
            "Version": "28.3.2",
            "ApiVersion": "1.51",
            "Arch": "arm64",
            "Components": [{"Name": "Engine", "Version": "28.3.2"}],
        },
    ),
    "/info": (
        200,
        {
            "Name": "a-board",
            "Architecture": "aarch64",
            "KernelVersion": "5.15.148-tegra",
            "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
            "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
            "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
            "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
            "CgroupVersion": "2",
            "Driver": "overlay2",
            "DockerRootDir": "/var/lib/docker",
            "SystemTime": "2026-11-21T19:15:09.618790633Z",
        },
    ),
}
PODMAN: dict[str, tuple[int, Any]] = {
    "/version": (
        200,
        {
            "Version": "4.9.3",
            "ApiVersion": "1.41",
            "Components": [{"Name": "Podman Engine", "Version": "4.9.3"}],
        },
    ),
    "/info": (200, {"Name": "x", "Runtimes": {"crun": {}}, "SecurityOptions": ["name=rootless"]}),
}


class Asked(msgspec.Struct, frozen=True):
    """A request, and all that was sent with it."""

    path: str
    body: bytes


@contextmanager
def stand_in_engine(
    folder: Path, answers: Answers, asked: list[Asked] | None = None
) -> Iterator[str]:
    """An engine below ``folder`` with these answers; its address. All else is 404.

    Requests that came whole are appended to ``asked``.
    """
    path = folder / "engine.sock"
    noted = [] if asked is None else asked

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            route = urlsplit(self.path).path
            noted.append(Asked(route, self.body()))
            status, content = next(
                (answer for end, answer in answers.items() if route.endswith(end)),
                (404, {"message": "No such image: nor any such page"}),
            )
            if callable(content):
                with suppress(OSError):  # the caller went away in the middle
                    for piece in content():
                        self.wfile.write(piece)
                return
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - the names that the server looks for

        def body(self) -> bytes:
            """What came with the request; raises ValueError where a chunk of it is missing."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while n_bytes := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(n_bytes))
                self.rfile.readline()
            return b"".join(pieces)

        def log_message(self, *_: object) -> None:
            """Nothing: tests do not print."""

        def address_string(self) -> str:
            return "a socket"

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Nothing: the caller went away in the middle."""

    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()
