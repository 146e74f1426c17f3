"""What a server of a language model did: requests, rounds of requests at once, and their energy."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.trial import Conditions, EnergyWindow


class GenerationRequest(Record, frozen=True, kw_only=True):
    """One request whose answer was streamed. Times but for ``sent_s`` are since it was sent."""

    sent_s: float  # monotonic
    event_s: tuple[float, ...]  # arrival of each streamed event that holds output
    end_s: float  # of the whole stream
    streamed_tokens: int  # counted by us: by the ids in the events, else one an event
    prompt_tokens: int | None  # counted by the server
    cached_tokens: int | None  # of these, that a prefix cache answered
    generated_tokens: int | None  # counted by the server
    server_prompt_s: float | None  # the server's own timings
    server_decode_s: float | None  # from the first token to the last

    @property
    def n_tokens(self) -> int:
        """Generated tokens, by the server where it counts them."""
        return self.streamed_tokens if self.generated_tokens is None else self.generated_tokens

    @property
    def token_s(self) -> float | None:
        """Seconds for each token after the first; None for one token."""
        if len(self.event_s) < 2 or self.n_tokens < 2:
            return None
        return (self.event_s[-1] - self.event_s[0]) / (self.n_tokens - 1)


class GenerationRound(Record, frozen=True, kw_only=True):
    """Requests that were sent at once.

    The prefill is from the first request sent to the first token of the last; the decode from
    there to the last token; the whole is both. The windows' repetitions are the tokens of their
    phase, and of the whole those of the answers.
    """

    requests: tuple[GenerationRequest, ...]
    rejected: str  # why it is kept but not averaged in; empty: it counts
    prefill: EnergyWindow | None
    decode: EnergyWindow | None
    whole: EnergyWindow | None

    @property
    def start_s(self) -> float:
        """When the first request was sent, monotonic."""
        return min(request.sent_s for request in self.requests)

    @property
    def decode_start_s(self) -> float:
        """The first token of the request whose first token came last, monotonic."""
        return max(request.sent_s + request.event_s[0] for request in self.requests)

    @property
    def end_s(self) -> float:
        """The last token of all, monotonic."""
        return max(request.sent_s + request.event_s[-1] for request in self.requests)

    @property
    def n_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(request.n_tokens for request in self.requests)

    @property
    def decoded_tokens(self) -> int:
        """Tokens that came after ``decode_start_s``; events stand for equal shares of tokens."""
        tokens = 0.0
        for request in self.requests:
            later = sum(request.sent_s + s > self.decode_start_s for s in request.event_s)
            n_between = len(request.event_s) - 1
            tokens += (request.n_tokens - 1) * later / n_between if n_between else 0
        return round(tokens)

    @property
    def overlap(self) -> float:
        """The share of the tokens after each request's first that came within the prefill."""
        n_after = sum(request.n_tokens - 1 for request in self.requests)
        return 1 - self.decoded_tokens / n_after if n_after else 0.0


# Above this share of tokens that are decoded within the prefill, it has no energy of its own.
MOST_OVERLAP = 0.05


class GenerationRun(Record, frozen=True, kw_only=True):
    """One length of prompt, of answer and one concurrency on one server under one power mode."""

    schema: ClassVar[Schema] = Schema("generation-run", 2, oldest=1)

    run_id: str
    trial_id: str
    source: Source
    workload: str  # how it is called in tables
    model: str  # as the server calls it
    server: str  # llama.cpp, ollama, vllm, sglang, or what owns its models
    server_version: str | None
    api: Literal["completion", "generate", "completions", "chat"]  # the last word of its path
    address: str | None  # without its secrets
    command: tuple[str, ...] | None  # that started it, without its secrets
    server_hash: str | None  # of the command's files and secrets
    environment: dict[str, str]  # variables that are part of the command's identity
    prompt_tokens: int  # of each prompt
    prompt_counting: Literal["tokeniser", "usage"]  # of the server: how they were made so long
    generate_tokens: int  # that were asked for
    concurrency: int  # requests at once
    seed: int  # of the prompts
    rounds: tuple[GenerationRound, ...]  # the first is a warm-up, and rejected
    # Prompts alone, one token each, round after round without pause: where the prefill of a round
    # is too short for the meters. Repetitions are the tokens of the prompts.
    prefills: tuple[EnergyWindow, ...] | None
    memory_bytes: int | None  # most resident memory of the server's processes, summed
    memory_taken_bytes: int | None  # MemAvailable before the start less the least since
    load_s: float | None  # from the start until it was healthy
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # of the rounds' medians, first token or token, relative
    conditions: Conditions
    disturbances: tuple[str, ...]
    started_utc: str
    duration_s: float
    options: dict[str, str] = msgspec.field(default_factory=dict)  # sent with each request
    depends: tuple[str, ...] = ()  # further files and folders whose content is part of its hash

    @property
    def counted(self) -> tuple[GenerationRound, ...]:
        """The rounds that count."""
        return tuple(one for one in self.rounds if not one.rejected)
