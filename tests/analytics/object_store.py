"""An object store in memory that speaks as much of S3's protocol as Polars asks for.

Paths are /bucket/key; signatures are not checked. Where it departs from S3 it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Bucket(ThreadingHTTPServer):
    """``objects``: what is in it, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bucket

    def do_GET(self) -> None:
        path, query = self._asked()
        if "list-type" in query:
            self._list(path.strip("/"), query.get("prefix", [""])[0])
            return
        self._send_object(path, with_body=True)

    def do_HEAD(self) -> None:
        self._send_object(self._asked()[0], with_body=False)

    def do_PUT(self) -> None:
        path, query = self._asked()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "uploadId" in query:
            self.server.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, headers={"ETag": '"part"'})
        else:
            self.server.objects[path] = body
            self._answer(200, headers={"ETag": '"whole"'})

    def do_POST(self) -> None:
        path, query = self._asked()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploads" in query:
            upload = f"upload-{len(self.server.uploads)}"
            self.server.uploads[upload] = {}
            found = f"<UploadId>{upload}</UploadId>"
            self._answer(200, _xml("InitiateMultipartUploadResult", found))
        else:
            parts = self.server.uploads.pop(query["uploadId"][0])
            self.server.objects[path] = b"".join(parts[number] for number in sorted(parts))
            self._answer(200, _xml("CompleteMultipartUploadResult", "<ETag>whole</ETag>"))

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return unquote(parts.path), parse_qs(parts.query, keep_blank_values=True)

    def _list(self, bucket: str, prefix: str) -> None:
        start = f"/{bucket}/"
        found = "".join(
            f"<Contents><Key>{escape(key.removeprefix(start))}</Key>"
            f"<Size>{len(content)}</Size><ETag>whole</ETag>"
            "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
            for key, content in sorted(self.server.objects.items())
            if key.startswith(start + prefix)
        )
        head = f"<Name>{bucket}</Name><IsTruncated>false</IsTruncated>"
        self._answer(200, _xml("ListBucketResult", head + found))

    def _send_object(self, path: str, *, with_body: bool) -> None:
        content = self.server.objects.get(path)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        status, headers = 200, {"ETag": '"whole"', "Last-Modified": _MODIFIED}
        asked = self.headers.get("Range")
        if asked is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            size = len(content)
            start = int(first) if first else max(0, size - int(last))
            end = min(int(last), size - 1) if first and last else size - 1
            status, content = 206, content[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        self._answer(status, content, headers, with_body=with_body)

    def _answer(
        self,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        with_body: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing: a test has no log."""


_MODIFIED = "Fri, 02 Jan 2026 03:04:05 GMT"


def _xml(name: str, inside: str) -> bytes:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inside}</{name}>'
    return text.encode()


@contextmanager
def serving() -> Iterator[Bucket]:
    """The store while it answers; ``server_port`` says where, on 127.0.0.1."""
    server = Bucket()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
