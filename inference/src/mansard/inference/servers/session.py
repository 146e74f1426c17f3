"""Rounds of requests to one server, until their times are known, and the energy of their phases.

A round sends its requests at once and waits for all. Its prefill lasts from the first request sent
to the first token of the last, its decode from there to the last token. With one request these are
the phases of a language model. With several they overlap where the server answers one while it
reads the prompt of another: the share of tokens that came before the decode says how much
(``GenerationRound.overlap``), and above ``MOST_OVERLAP`` the prefill has no energy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import msgspec

from mansard.core.errors import MeasurementError
from mansard.core.records import (
    MOST_OVERLAP,
    EnergyWindow,
    GenerationRequest,
    GenerationRound,
)
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler
from mansard.inference.servers.opening import OpenServer
from mansard.inference.servers.plan import GenerationTrial
from mansard.inference.servers.rounds import run_round
from mansard.measuring.metering import NO_METER, energy_between
from mansard.measuring.protocol import Protocol
from mansard.measuring.sampling import relative_half_width

_WINDOWS = ("prefill", "decode", "whole")  # of a round
WARM_UP = "the first round, which warms up"


class Session:
    """The requests of one trial, metered."""

    def __init__(
        self,
        spec: GenerationTrial,
        protocol: Protocol,
        server: OpenServer,
        sampler: Sampler,
        meters: Meters,
    ) -> None:
        self._spec, self._protocol, self._server = spec, protocol, server
        self._sampler, self._meters = sampler, meters
        self.memory_bytes: int | None = None
        self.memory_taken_bytes: int | None = None

    def repeat(self) -> tuple[tuple[GenerationRound, ...], float | None, str]:
        """The rounds, the interval of their times, and what is still missing.

        Each lies between two readings of the meters. Raises MeasurementError.
        """
        rounds: list[GenerationRound] = []
        protocol, start_s = self._protocol, time.monotonic()
        while True:
            self._sampler.read()
            requests = self._send(self._spec.generate_tokens)
            rejected = WARM_UP if not rounds else _rejection(requests, self._spec)
            rounds.append(_plain_round(requests, rejected))
            self._sampler.read()
            self._look_at_memory()
            counted = [one for one in rounds if not one.rejected]
            interval = times_interval(counted)
            problem = _missing(len(counted), interval, protocol)
            later = rounds[1:] or rounds  # the first takes longer
            longest_s = max(one.end_s - one.start_s for one in later)
            end_s = time.monotonic() + longest_s - start_s  # of one more round
            # Where every round is rejected, as many again are tried.
            is_enough = len(counted) >= protocol.n_blocks_min
            is_enough |= len(rounds) > 2 * protocol.n_blocks_min + 1
            if not problem or (end_s > protocol.time_cap_s and is_enough):
                self._sampler.read_past(rounds[-1].end_s)
                return tuple(map(self._with_energy, rounds)), interval, problem

    def prefills_alone(
        self, rounds: Sequence[GenerationRound]
    ) -> tuple[tuple[EnergyWindow, ...] | None, str]:
        """Windows of prompts alone, where the rounds' own prefills are too short for the meters."""
        if not self._meters.found:
            return None, NO_METER
        if all(one.rejected for one in rounds):
            return None, "no round counts"
        if any(one.prefill is not None and one.prefill.total_j is not None for one in rounds):
            return None, "the prefills of the rounds have energies"
        windows = []
        for _ in range(self._protocol.n_energy_windows):
            window, why = self._prefills_window()
            if window is None:
                return None, why
            windows.append(window)
        return tuple(windows), ""

    def _send(self, n_tokens: int) -> tuple[GenerationRequest, ...]:
        server, spec = self._server, self._spec
        prompts = [server.prompts.make(spec.prompt_tokens) for _ in range(spec.concurrency)]
        try:
            return run_round(server.endpoint, prompts, n_tokens, server.check)
        except MeasurementError:
            server.check()  # an answer that broke off because the server ended says less
            raise

    def _look_at_memory(self) -> None:
        process = self._server.process
        if process is None:
            return
        resident_bytes, taken_bytes = process.resident_bytes(), process.taken_bytes
        if resident_bytes is not None:
            self.memory_bytes = max(self.memory_bytes or 0, resident_bytes)
        if taken_bytes is not None:
            self.memory_taken_bytes = max(self.memory_taken_bytes or 0, taken_bytes)

    def _energy(
        self, start_s: float, end_s: float, n_tokens: int
    ) -> tuple[EnergyWindow | None, str]:
        n_changed_min = self._protocol.n_changed_min
        return energy_between(self._sampler, self._meters, n_changed_min, start_s, end_s, n_tokens)

    def _n_read(self, requests: Sequence[GenerationRequest]) -> int:
        """Tokens of the prompts, by the server where it counts them."""
        return sum(request.prompt_tokens or self._spec.prompt_tokens for request in requests)

    def _with_energy(self, one: GenerationRound) -> GenerationRound:
        """The round with the energies of its phases, or why it has none."""
        if one.rejected:
            why = "the round does not count"
            return msgspec.structs.replace(one, unknown=dict.fromkeys(_WINDOWS, why))
        prefill, why_no_prefill = self._energy(
            one.start_s, one.decode_start_s, self._n_read(one.requests)
        )
        if one.overlap > MOST_OVERLAP:
            prefill, why_no_prefill = (
                None,
                (
                    f"the phases overlap: {one.overlap:.0%} of the tokens were decoded before the "
                    "last request had its first"
                ),
            )
        decode, why_no_decode = None, "every answer is one token"
        if one.decoded_tokens:
            decode, why_no_decode = self._energy(one.decode_start_s, one.end_s, one.decoded_tokens)
        whole, why_no_whole = self._energy(one.start_s, one.end_s, one.n_tokens)
        windows = (prefill, decode, whole)
        whys = (why_no_prefill, why_no_decode, why_no_whole)
        unknown = {
            name: why
            for name, window, why in zip(_WINDOWS, windows, whys, strict=True)
            if window is None
        }
        return msgspec.structs.replace(
            one, prefill=prefill, decode=decode, whole=whole, unknown=unknown
        )

    def _prefills_window(self) -> tuple[EnergyWindow | None, str]:
        """Rounds of one token each, without pause, until there is an energy or the time is up."""
        protocol, start_s, n_tokens = self._protocol, 0.0, 0
        while True:
            requests = self._send(1)
            if any(n_cached(request, self._spec.prompt_tokens) for request in requests):
                return None, "a prefix cache answered a prompt"
            start_s = start_s or min(request.sent_s for request in requests)
            n_tokens += self._n_read(requests)
            end_s = max(request.sent_s + request.event_s[0] for request in requests)
            if end_s - start_s < protocol.energy_window_s:
                continue
            self._sampler.read()
            window, why = self._energy(start_s, end_s, n_tokens)
            is_known = window is not None and window.total_j is not None
            if is_known or end_s - start_s >= protocol.energy_window_cap_s:
                return window, why


def _plain_round(requests: Sequence[GenerationRequest], rejected: str) -> GenerationRound:
    reason = "it is computed once all rounds are through"
    return GenerationRound(
        requests=tuple(requests),
        rejected=rejected,
        prefill=None,
        decode=None,
        whole=None,
        unknown=dict.fromkeys(_WINDOWS, reason),
    )


def _rejection(requests: Sequence[GenerationRequest], spec: GenerationTrial) -> str:
    """Why a round does not count; empty where it does."""
    cached = [n_cached(request, spec.prompt_tokens) for request in requests]
    if any(cached):
        n_all = spec.prompt_tokens * len(requests)
        return f"a prefix cache answered {sum(cached)} of {n_all} tokens of the prompts"
    if spec.generate_tokens > 1 and any(request.token_s is None for request in requests):
        return "an answer ended at its first token"
    return ""


def n_cached(request: GenerationRequest, n_sent: int) -> int:
    """Tokens of a prompt that a cache answered: by the server, else those that it did not count."""
    if request.cached_tokens is not None:
        return request.cached_tokens
    if request.prompt_tokens is None:
        return 0
    return max(0, n_sent - request.prompt_tokens)


def all_rejected(rounds: Sequence[GenerationRound]) -> tuple[str, ...]:
    """A disturbance where no round counts."""
    if any(not one.rejected for one in rounds):
        return ()
    return (f"no round counts: {rounds[-1].rejected}",)


def times_interval(rounds: Sequence[GenerationRound]) -> float | None:
    """Half the width of the interval of the median first token, or token: the wider; relative."""
    first = [median(request.event_s[0] for request in one.requests) for one in rounds]
    tokens = [
        median(request.token_s for request in one.requests if request.token_s is not None)
        for one in rounds
        if any(request.token_s is not None for request in one.requests)
    ]
    intervals = [relative_half_width(values_s) for values_s in (first, tokens) if values_s]
    known = [interval for interval in intervals if interval is not None]
    return max(known) if known and len(known) == len(intervals) else None


def _missing(n_counted: int, interval: float | None, protocol: Protocol) -> str:
    """What the protocol still requires; empty when it is satisfied."""
    if n_counted < protocol.n_blocks_min:
        return f"only {n_counted} of {protocol.n_blocks_min} rounds count"
    if n_counted < protocol.n_accepted_min or interval is None:
        counted = "1 round counts" if n_counted == 1 else f"{n_counted} rounds count"
        return f"{counted}, and an interval needs {protocol.n_accepted_min}"
    if interval > protocol.stream_interval:
        return f"the rounds differ: ±{interval:.1%} (limit ±{protocol.stream_interval:.1%})"
    return ""
