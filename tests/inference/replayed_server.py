"""Servers of language models that replay streams, in the forms that vLLM and Ollama document.

They compute nothing and keep no time: what is tested is what is asked of a server, and what is read
of its answers. Sources: vLLM, "OpenAI-Compatible Server", /tokenize and /version; Ollama, "Generate
a completion" and "Usage"; the chunks of OpenAI's API reference.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Replayed:
    """What a server answers; the defaults are vLLM's with a tokeniser."""

    models: tuple[str, ...] = ("org/tiny",)
    owner: str = "vllm"
    is_ollama: bool = False
    has_tokeniser: bool = True
    paths: tuple[str, ...] = ("/v1/completions", "/v1/chat/completions")
    refused_fields: tuple[str, ...] = ()  # answered with 400
    template_tokens: int = 0  # added to each prompt of words
    cached: Callable[[int], int] = lambda _number: 0  # tokens of the n-th request in a cache
    tells_cached: bool = True
    counts: bool = True  # whether it says how many tokens there were
    status: int = 200  # of every completion
    fails_from: int | None = None  # the first request that is answered with 500
    message: str = "the engine is out of memory"
    stops_after: int | None = None  # events, after which the connection is closed
    error_after: int | None = None  # events, after which an error comes in the stream
    first_delay_s: float = 0.0
    delay_s: float = 0.0  # before each event after the first
    lags: bool = False  # every second answer begins when the one before it has ended
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    bodies: list[dict[str, Any]] = field(default_factory=list)  # that came

    def prompt_of(self, body: dict[str, Any]) -> list[Any]:
        """The tokens of a request's prompt: ids, or words."""
        prompt = body.get("prompt")
        if prompt is None:
            prompt = body["messages"][0]["content"]
        return prompt if isinstance(prompt, list) else prompt.split()


@contextmanager
def replaying(replayed: Replayed) -> Iterator[str]:
    """The address of a server that answers so, until the end of the block."""

    server = _server(replayed, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve(replayed: Replayed, port: int) -> None:
    """Answer so on a port until the process is ended, as a server does that a command starts."""
    _server(replayed, port).serve_forever()


def _server(replayed: Replayed, port: int) -> ThreadingHTTPServer:
    class Handler(_Handler):
        server_of = replayed

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


_ERROR = b'data: {"error": {"message": "CUDA error: out of memory"}}\n\n'


class _Handler(BaseHTTPRequestHandler):
    server_of: Replayed
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        mine = self.server_of
        listed = {"data": [{"id": name, "owned_by": mine.owner} for name in mine.models]}
        version = {"version": "0.11"}
        answers: dict[str, Any] = {"/health": {}, "/v1/models": listed, "/version": version}
        if mine.is_ollama:
            tags = {"models": [{"name": name} for name in mine.models]}
            answers = {"/api/version": {"version": "0.13.1"}, "/api/tags": tags}
        found = answers.get(self.path)
        self._answer(404 if found is None else 200, found or {"detail": "Not Found"})

    def do_POST(self) -> None:
        mine = self.server_of
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize" and mine.has_tokeniser:
            words = body["prompt"].split()
            self._answer(200, {"count": len(words), "tokens": list(range(100, 100 + len(words)))})
        elif self.path == "/api/generate" and mine.is_ollama:
            self._complete(body, _ollama_events)
        elif self.path in mine.paths and not mine.is_ollama:
            chat = self.path.endswith("chat/completions")
            self._complete(body, _chat_events if chat else _openai_events)
        else:
            self._answer(404, {"detail": "Not Found"})

    def _complete(
        self, body: dict[str, Any], events: Callable[..., Iterator[tuple[bytes, bool]]]
    ) -> None:
        mine = self.server_of
        refused = [name for name in mine.refused_fields if name in body]
        if refused:
            self._answer(400, {"error": {"message": f"unknown field {refused[0]}", "code": 400}})
            return
        is_late = mine.fails_from is not None and len(mine.bodies) >= mine.fails_from
        status = 500 if is_late else mine.status
        if status != 200:
            self._answer(status, {"error": {"message": mine.message}})
            return
        mine.bodies.append(body)
        is_second = mine.lags and len(mine.bodies) % 2 == 1 and len(mine.bodies) > 1
        if is_second:
            mine.turn.acquire()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (line, is_output) in enumerate(events(mine, body, len(mine.bodies) - 1)):
            time.sleep(mine.delay_s if number else mine.first_delay_s)
            if mine.stops_after == number and is_output:
                self.close_connection = True
                return
            fails = mine.error_after == number and is_output
            sent = _ERROR if fails else line
            self.wfile.write(f"{len(sent):x}\r\n".encode() + sent + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        if mine.lags and not is_second and len(mine.bodies) > 1:
            mine.turn.release()

    def _answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _usage(mine: Replayed, body: dict[str, Any], number: int) -> dict[str, Any]:
    n_prompt = len(mine.prompt_of(body)) + mine.template_tokens
    usage: dict[str, Any] = {"prompt_tokens": n_prompt, "completion_tokens": body["max_tokens"]}
    if mine.tells_cached:
        usage["prompt_tokens_details"] = {"cached_tokens": mine.cached(number)}
    return usage


def _openai_events(
    mine: Replayed, body: dict[str, Any], number: int
) -> Iterator[tuple[bytes, bool]]:
    for at in range(body["max_tokens"]):
        reason = "length" if at == body["max_tokens"] - 1 else None
        yield _event({"choices": [{"text": f" t{at}", "finish_reason": reason}]}), True
    if mine.counts and body.get("stream_options"):
        yield _event({"choices": [], "usage": _usage(mine, body, number)}), False
    yield b"data: [DONE]\n\n", False


def _chat_events(mine: Replayed, body: dict[str, Any], number: int) -> Iterator[tuple[bytes, bool]]:
    yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}), False
    for at in range(body["max_tokens"]):
        yield _event({"choices": [{"delta": {"content": f" t{at}"}, "finish_reason": None}]}), True
    yield _event({"choices": [{"delta": {}, "finish_reason": "length"}]}), False
    if mine.counts:
        yield _event({"choices": [], "usage": _usage(mine, body, number)}), False
    yield b"data: [DONE]\n\n", False


def _event(document: object) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


def _ollama_events(
    mine: Replayed, body: dict[str, Any], number: int
) -> Iterator[tuple[bytes, bool]]:
    n_generate, n_prompt = body["options"]["num_predict"], len(mine.prompt_of(body))
    for at in range(n_generate):
        yield json.dumps({"response": f" t{at}", "done": False}).encode() + b"\n", True
    n_cached = mine.cached(number)
    done = {
        "response": "",
        "done": True,
        "done_reason": "length",
        "prompt_eval_count": n_prompt + mine.template_tokens - n_cached,
        "prompt_eval_duration": 20_000_000,
        "eval_count": n_generate,
        "eval_duration": 90_000_000,
    }
    if done["prompt_eval_count"] == 0:
        del done["prompt_eval_count"]  # as it was before it had prompt_eval_cached_count
    yield json.dumps(done).encode() + b"\n", False
