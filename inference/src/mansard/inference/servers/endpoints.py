"""Which server listens at an address, its version, its models, and how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.records import GenerationRequest
from mansard.core.text import first_of, printable
from mansard.inference.servers.connection import Address, Connection, HttpError, ask
from mansard.inference.servers.interfaces import (
    CHAT,
    COMPLETIONS,
    LLAMA,
    OLLAMA,
    Interface,
    Prompt,
    read_request,
)

_ASK_S = 30.0  # for an answer about the server itself
_REFUSED = (400, 422)  # of a field that a server does not know
_NOT_THERE = (404, 405, 501)


@dataclass(frozen=True)
class Endpoint:
    """A server, one of its models, and the interface that it is measured by."""

    address: Address
    server: str
    version: str | None
    model: str
    interface: Interface
    left_out: frozenset[str] = frozenset()  # fields that the server refuses
    # Of prompt and answer, that a server has to make room for where it does not do so by itself.
    context_tokens: int = 0

    def body(self, prompt: Prompt, n_tokens: int) -> dict[str, Any]:
        """The body of a request."""
        body = self.interface.body(self.model, prompt, n_tokens)
        if self.interface is OLLAMA and self.context_tokens:
            # Its default cuts longer prompts; another one loads the model again.
            body["options"]["num_ctx"] = self.context_tokens
        return {name: value for name, value in body.items() if name not in self.left_out}

    def request(self, connection: Connection, prompt: Prompt, n_tokens: int) -> GenerationRequest:
        """One request on a connection that is open; raises MeasurementError."""
        streamed = connection.stream(self.interface.path, self.body(prompt, n_tokens))
        return read_request(self.interface, streamed, self.address.shown)

    @property
    def options(self) -> dict[str, str]:
        """What is sent with every request, beside model and prompt."""
        named = {"model", "prompt", "messages", "max_tokens", "n_predict"}
        body = self.body("", 0)
        return {name: str(value) for name, value in body.items() if name not in named}


def find_endpoint(address: Address, model: str | None) -> Endpoint:
    """The server at ``address``; ``model`` None: its only one. Raises MeasurementError."""
    status, document = ask(address, "GET", "/props", timeout_s=_ASK_S)
    if status == 200 and _has(document, "default_generation_settings"):
        build = document.get("build_info")
        version = str(build) if build else None
        return Endpoint(address, "llama.cpp", version, _model(address, model), LLAMA)
    status, document = ask(address, "GET", "/api/version", timeout_s=_ASK_S)
    if status == 200 and _has(document, "version"):
        models = _names(ask(address, "GET", "/api/tags", timeout_s=_ASK_S)[1], "models", "name")
        version = str(document["version"])
        return Endpoint(address, "ollama", version, _chosen(address, model, models), OLLAMA)
    name = _model(address, model)
    server, version = _identity(address)
    return _openai(Endpoint(address, server, version, name, COMPLETIONS))


def _openai(endpoint: Endpoint) -> Endpoint:
    """``endpoint`` by the first interface of OpenAI's that answers, without refused fields."""
    refusals: list[HttpError] = []
    for interface in (COMPLETIONS, CHAT):
        for left_out in ((), ("ignore_eos",), ("ignore_eos", "stream_options")):
            tried = replace(endpoint, interface=interface, left_out=frozenset(left_out))
            try:
                with Connection(endpoint.address) as connection:
                    tried.request(connection, "the", 2)
            except HttpError as error:
                refusals.append(error)
            else:
                return tried
            if refusals[-1].status not in _REFUSED:
                break
        if refusals[-1].status not in (*_REFUSED, *_NOT_THERE):
            break
    raise refusals[-1]


def _model(address: Address, model: str | None) -> str:
    status, document = ask(address, "GET", "/v1/models", timeout_s=_ASK_S)
    if status in (401, 403):
        raise HttpError(address, "/v1/models", status, document)
    if status != 200 or not _has(document, "data"):
        raise MeasurementError(
            f"no server of a language model is there: it answered {status} to /v1/models",
            where=address.shown,
            fix="give the address of an OpenAI-compatible server, of llama.cpp's or of Ollama",
        )
    names = _names(document, "data", "id")
    aliases = [
        str(alias)
        for one in document["data"]
        if isinstance(one, dict) and isinstance(one.get("aliases"), list)
        for alias in one["aliases"]
    ]
    if model in aliases:
        return str(model)
    return _chosen(address, model, names)


def _chosen(address: Address, model: str | None, models: Sequence[str]) -> str:
    if model in models:
        return str(model)
    if model is not None and f"{model}:latest" in models:
        return f"{model}:latest"
    if model is None and len(models) == 1:
        return models[0]
    there = first_of([printable(name) for name in models], 10) if models else "none"
    what = "several models" if model is None else f"no model {model!r}"
    if not models:
        what = "no model"
    raise MeasurementError(
        f"the server has {what}; it has {there}",
        where=address.shown,
        fix="name one of them with --model" if models else "load one into it",
    )


def _identity(address: Address) -> tuple[str, str | None]:
    """The name and version of an OpenAI-compatible server, by what owns its models."""
    _, document = ask(address, "GET", "/v1/models", timeout_s=_ASK_S)
    owners = [str(one.get("owned_by", "")) for one in document["data"] if isinstance(one, dict)]
    server = printable(next(filter(None, owners), "openai"), 60)
    for path in ("/version", "/get_server_info"):  # vLLM's, SGLang's
        status, document = ask(address, "GET", path, timeout_s=_ASK_S)
        if status == 200 and _has(document, "version"):
            return server, printable(str(document["version"]), 60)
    return server, None


def _has(document: Any, name: str) -> bool:
    return isinstance(document, dict) and name in document


def _names(document: Any, listed: str, name: str) -> list[str]:
    entries = document.get(listed) if isinstance(document, dict) else None
    return [str(one[name]) for one in entries or () if isinstance(one, dict) and name in one]
