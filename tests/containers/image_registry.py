"""A registry of one small image on this machine: what Docker pulls from it is real."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
TOKEN = "for-anyone"  # noqa: S105 - what the stand-in hands out


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """Blobs and manifests by their names; ``faults`` changes what it does."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.faults: set[str] = set()
        self.asked: list[str] = []
        self.address = ""

    def add(self, name: str, layers: list[bytes], architecture: str = "amd64") -> str:
        """An image of these layers of one file each, in an index; its digest."""
        packed = [_layer(number, content) for number, content in enumerate(layers)]
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(raw) for raw, _ in packed]},
                "history": [{"created": "2026-01-01T00:00:00Z"} for _ in packed],
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self._blob(CONFIG, config),
                "layers": [self._blob(LAYER, data) for _, data in packed],
            }
        ).encode()
        entry = {"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest)}
        self.manifests[digest_of(manifest)] = (MANIFEST, manifest)
        platform = {"architecture": architecture, "os": "linux"}
        index = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": [{**entry, "platform": platform}],
            }
        ).encode()
        self.manifests[name] = self.manifests[digest_of(index)] = (INDEX, index)
        return digest_of(index)

    def layers_bytes(self) -> int:
        return sum(len(data) for kind, data in self.blobs.values() if kind == LAYER)

    def _blob(self, kind: str, data: bytes) -> dict[str, Any]:
        self.blobs[digest_of(data)] = (kind, data)
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry on a free port of this machine, which Docker asks without TLS."""
    content = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, content, with_body=True)

        def do_HEAD(self) -> None:
            _answer(self, content, with_body=False)

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    content.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield content
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, content: Registry, *, with_body: bool) -> None:
    path = handler.path
    content.asked.append(path)
    if path.startswith("/token"):
        _send(handler, 200, "application/json", json.dumps({"token": TOKEN}).encode(), with_body)
        return
    if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
        realm = f'Bearer realm="http://{content.address}/token",service="here",scope="pull"'
        _send(handler, 401, "text/plain", b"", with_body, {"WWW-Authenticate": realm})
        return
    name = path.rpartition("/")[2]
    found = (content.manifests if "/manifests/" in path else content.blobs).get(name)
    if path == "/v2/":
        found = ("application/json", b"{}")
    if found is None:
        problem = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
        _send(handler, 404, "application/json", json.dumps(problem).encode(), with_body)
        return
    kind, data = found
    if kind == LAYER and "cut" in content.faults:
        data = data[: len(data) // 2]  # the digest tells
    _send(handler, 200, kind, data, with_body, {"Docker-Content-Digest": digest_of(data)})


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    kind: str,
    data: bytes,
    with_body: bool,
    headers: dict[str, str] | None = None,
) -> None:
    handler.send_response(status)
    for key, value in {"Content-Type": kind, "Content-Length": str(len(data))}.items():
        handler.send_header(key, value)
    for key, value in (headers or {}).items():
        handler.send_header(key, value)
    handler.end_headers()
    if with_body:
        handler.wfile.write(data)


def _layer(number: int, content: bytes) -> tuple[bytes, bytes]:
    """The layer as it is and as it travels."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo(f"file{number}")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return data.getvalue(), gzip.compress(data.getvalue(), 1, mtime=0)
