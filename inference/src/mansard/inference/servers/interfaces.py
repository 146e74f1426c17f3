"""The interfaces of servers: what is asked of each, and what its stream says.

- llama.cpp, ``/completion``: prompts as ids of tokens; the last event has ``timings`` (tools/server
  of ggml-org/llama.cpp: prompt_n, prompt_ms, predicted_n, predicted_ms, cache_n).
- Ollama, ``/api/generate`` with ``raw``: prompts as texts; the last line has counts and durations
  in ns (docs.ollama.com/api/usage). One whose prompt was cached tells fewer or no
  ``prompt_eval_count``, or ``prompt_eval_cached_count``.
- OpenAI's ``/v1/completions`` and ``/v1/chat/completions`` (vLLM, SGLang and others): the last
  chunk has ``usage`` where ``stream_options.include_usage`` asks for it, with
  ``prompt_tokens_details.cached_tokens``. llama.cpp's has ``timings`` there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from mansard.core.errors import MeasurementError
from mansard.core.records import GenerationRequest
from mansard.inference.servers.connection import Streamed, message_of

Prompt: TypeAlias = "list[int] | str"  # ids of tokens, or a text
InterfaceName = Literal["completion", "generate", "completions", "chat"]
_NOT_TOLD = "the server does not say"
_DONE = b"data: [DONE]"  # the end of a stream of OpenAI's form
_DIGITS = 7  # of seconds: a row has a time for each token


class StreamedOutput(msgspec.Struct):
    """What the events of one stream said."""

    event_s: list[float]  # since it was sent
    streamed_tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    server_prompt_s: float | None = None
    server_decode_s: float | None = None
    is_complete: bool = False

    def add_output(self, at_s: float, n_tokens: int = 1) -> None:
        """An event with output arrived."""
        self.event_s.append(at_s)
        self.streamed_tokens += n_tokens

    def add_timings(self, timings: Any) -> None:
        """llama.cpp's own timings."""
        if isinstance(timings, dict):
            self.cached_tokens = _count(timings, "cache_n")
            n_run = _count(timings, "prompt_n")
            if self.prompt_tokens is None and n_run is not None:
                self.prompt_tokens = n_run + (self.cached_tokens or 0)
            self.generated_tokens = _count(timings, "predicted_n")
            self.server_prompt_s = _seconds(timings, "prompt_ms", 1e-3)
            self.server_decode_s = _seconds(timings, "predicted_ms", 1e-3)


@dataclass(frozen=True)
class Interface:
    """One way to ask a server for a streamed completion."""

    name: InterfaceName
    path: str
    takes_tokens: bool  # prompts may be ids of tokens
    # The body of a request for so many tokens, and what an event of the stream adds.
    body: Callable[[str, Prompt, int], dict[str, Any]]
    read: Callable[[dict[str, Any], float, StreamedOutput], None]


def _llama_body(model: str, prompt: Prompt, n_tokens: int) -> dict[str, Any]:
    del model  # it has one
    return {"prompt": prompt, "n_predict": n_tokens, "return_tokens": True, **_OPTIONS}


def _ollama_body(model: str, prompt: Prompt, n_tokens: int) -> dict[str, Any]:
    options = {"num_predict": n_tokens, "temperature": 0}
    return {"model": model, "prompt": prompt, "raw": True, "stream": True, "options": options}


def _completion_body(model: str, prompt: Prompt, n_tokens: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": n_tokens, **_OPENAI}


def _chat_body(model: str, prompt: Prompt, n_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": model, "messages": messages, "max_tokens": n_tokens, **_OPENAI}


_OPTIONS: dict[str, Any] = {"stream": True, "temperature": 0, "ignore_eos": True}
_OPENAI: dict[str, Any] = {**_OPTIONS, "stream_options": {"include_usage": True}}


def _read_llama(event: dict[str, Any], at_s: float, events: StreamedOutput) -> None:
    tokens = event.get("tokens")
    if event.get("content") or tokens:
        events.add_output(at_s, len(tokens) if isinstance(tokens, list) and tokens else 1)
    if event.get("stop"):
        events.is_complete = True
        events.prompt_tokens = _count(event, "tokens_evaluated")
        events.add_timings(event.get("timings"))


def _read_ollama(event: dict[str, Any], at_s: float, events: StreamedOutput) -> None:
    if event.get("response") or event.get("thinking"):
        events.add_output(at_s)
    if event.get("done"):
        events.is_complete = True
        # None of a prompt that a cache answered as a whole.
        events.prompt_tokens = _count(event, "prompt_eval_count") or 0
        events.cached_tokens = _count(event, "prompt_eval_cached_count")
        events.generated_tokens = _count(event, "eval_count")
        events.server_prompt_s = _seconds(event, "prompt_eval_duration", 1e-9)
        events.server_decode_s = _seconds(event, "eval_duration", 1e-9)


def _read_openai(event: dict[str, Any], at_s: float, events: StreamedOutput) -> None:
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        texts = (choice.get("text"), *map(delta.get, ("content", "reasoning_content", "reasoning")))
        if any(texts):
            events.add_output(at_s)
        events.is_complete |= choice.get("finish_reason") is not None
    usage = event.get("usage")
    if isinstance(usage, dict):
        events.prompt_tokens = _count(usage, "prompt_tokens")
        events.generated_tokens = _count(usage, "completion_tokens")
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            events.cached_tokens = _count(details, "cached_tokens")
    events.add_timings(event.get("timings"))


LLAMA = Interface("completion", "/completion", True, _llama_body, _read_llama)
OLLAMA = Interface("generate", "/api/generate", False, _ollama_body, _read_ollama)
COMPLETIONS = Interface("completions", "/v1/completions", True, _completion_body, _read_openai)
CHAT = Interface("chat", "/v1/chat/completions", False, _chat_body, _read_openai)


def read_request(interface: Interface, streamed: Streamed, where: str) -> GenerationRequest:
    """The record of one request; raises MeasurementError where its stream is not whole."""
    events = StreamedOutput([])
    events.is_complete = any(line.data.strip() == _DONE for line in streamed.lines)
    for event, at_s in _documents(streamed):
        if isinstance(event.get("error"), dict | str):
            raise MeasurementError(
                f"the server gave up an answer: {message_of(event)}",
                where=where,
                fix="its own log may say more",
            )
        interface.read(event, at_s, events)
    if not events.is_complete or not events.event_s:
        what = "without a token" if not events.event_s else "in the middle"
        raise MeasurementError(
            f"a stream of the server ended {what}, after {len(events.event_s)} events",
            where=where,
            fix="look into the server's log; the same command goes on from here",
        )
    values = msgspec.structs.asdict(events)
    del values["is_complete"], values["event_s"]
    unknown = {name: _NOT_TOLD for name, value in values.items() if value is None}
    return GenerationRequest(
        sent_s=streamed.sent_s,
        event_s=tuple(round(time_s, _DIGITS) for time_s in events.event_s),
        end_s=round(streamed.end_s - streamed.sent_s, _DIGITS),
        unknown=unknown,
        **values,
    )


def _documents(streamed: Streamed) -> Iterator[tuple[dict[str, Any], float]]:
    """The JSON objects of a stream, of server-sent events or of lines alone."""
    for at_s, data in streamed.lines:
        text = data.removeprefix(b"data:").strip()
        if not text.startswith(b"{"):  # empty, a comment, or [DONE]
            continue
        try:
            event = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        yield event, at_s - streamed.sent_s


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and value >= 0 else None


def _seconds(values: Mapping[str, Any], name: str, unit_s: float) -> float | None:
    value = values.get(name)
    return value * unit_s if isinstance(value, int | float) and value >= 0 else None
