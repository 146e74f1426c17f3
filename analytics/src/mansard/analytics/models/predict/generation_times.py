"""Servers of language models: times of first tokens and tokens, rates and energies of both phases.

A round's prefill reads C prompts in t_p, its decode makes n tokens in t_d
(``core/records/generation.py``):

    prefill rate = C · prompt / t_p,   decode rate = n / t_d,   output rate = N / (t_p + t_d)

with N tokens of all answers, the first ones too. Where more than ``MOST_OVERLAP`` of the tokens
come within the prefill, the phases are not apart, and only the output's figures are known.

A token takes (last - first) / (tokens - 1) of a request, whose median over a round's requests is
one value. Medians are over rounds, their ends those of the next measurement (95 %,
``call_energy.timed``). The energy of a token is that of the phase's windows over their tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mansard.analytics.data.names import display_name, display_text, label_text
from mansard.analytics.models.scaling.call_energy import CallEnergy, call_energy, timed
from mansard.core.records import (
    MOST_OVERLAP,
    EnergyWindow,
    GenerationRequest,
    GenerationRound,
    GenerationRun,
    Record,
    Source,
)

_P99_NEEDS = 100  # values, for a 99th percentile


class GenerationTimes(Record, frozen=True, kw_only=True):
    """One length of prompt and answer and one concurrency, on one server in one mode."""

    run_id: str
    trial_id: str
    device: str
    mode: str
    model: str  # as it is shown
    server: str  # with its version
    prompt_tokens: int
    generate_tokens: int
    concurrency: int
    source: Source
    first_token_s: float | None  # median; low and high: that of the next measurement, 95 %
    first_token_low_s: float | None
    first_token_high_s: float | None
    first_token_p99_s: float | None  # of single requests
    token_s: float | None  # of each token after the first, of one request
    token_low_s: float | None
    token_high_s: float | None
    gap_p99_s: float | None  # between two streamed events of a request
    server_prompt_s: float | None  # the server's own timings, medians
    server_token_s: float | None
    prefill_tokens_per_s: float | None  # of all requests of a round
    prefill_low_tokens_per_s: float | None
    prefill_high_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    decode_low_tokens_per_s: float | None
    decode_high_tokens_per_s: float | None
    output_tokens_per_s: float | None  # tokens of all answers over the whole round
    output_low_tokens_per_s: float | None
    output_high_tokens_per_s: float | None
    prefill_token_j: float | None  # of a token of a prompt
    prefill_token_low_j: float | None
    prefill_token_high_j: float | None
    prefill_w: float | None
    decode_token_j: float | None  # of a token of an answer
    decode_token_low_j: float | None
    decode_token_high_j: float | None
    decode_w: float | None
    output_token_j: float | None  # of the whole round, by token of an answer
    output_token_low_j: float | None
    output_token_high_j: float | None
    output_w: float | None
    memory_bytes: int | None
    overlap: float | None  # share of the tokens that came before the decode, in the worst round
    n_requests: int  # that count
    n_rejected: int  # rounds that do not count, but for the warm-up
    remark: str  # why it is in no model; empty: it counts
    label: str = ""  # of the build or commit


def generation_times(
    row: GenerationRun, device: str, mode: str, *, label: str = "", remark: str = ""
) -> GenerationTimes:
    """What one row says; unknown is None with a reason.

    ``label``: of its run. ``remark``: why it is in no model, where nothing in ``row`` says so.
    """
    rounds = row.counted
    requests = [request for one in rounds for request in one.requests]
    remark = display_text("; ".join(row.disturbances)) if row.disturbances else remark
    values: dict[str, Any] = {
        **_request_times(rounds, requests),
        **_rates(row, rounds),
        **_server_times(requests),
        "memory_bytes": row.memory_bytes,
        "overlap": max((one.overlap for one in rounds), default=None),
    }
    energies, reasons = _energies(row, rounds)
    values |= energies
    reasons = _reasons(row, values) | reasons
    if values["overlap"] is not None and values["overlap"] > MOST_OVERLAP:
        values, reasons = _without_phases(values, reasons)
    version = f" {row.server_version}" if row.server_version else ""
    return GenerationTimes(
        run_id=row.run_id,
        trial_id=row.trial_id,
        device=device,
        mode=mode,
        label=label_text(label),
        model=display_name(row.workload),
        server=display_name(row.server + version),
        prompt_tokens=row.prompt_tokens,
        generate_tokens=row.generate_tokens,
        concurrency=row.concurrency,
        source=row.source,
        n_requests=len(requests),
        n_rejected=sum(bool(one.rejected) for one in row.rounds[1:]),
        remark=remark,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,
    )


def _without_phases(
    values: dict[str, Any], reasons: dict[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Rounds whose phases overlap have no rate and no energy of either."""
    names = [name for name in values if name.startswith(("prefill_", "decode_"))]
    why = (
        f"the phases overlap: up to {values['overlap']:.0%} of the tokens came before the last "
        "request had its first"
    )
    return values | dict.fromkeys(names), reasons | dict.fromkeys(names, why)


def _request_times(
    rounds: Sequence[GenerationRound], requests: Sequence[GenerationRequest]
) -> dict[str, float | None]:
    first = timed([_median([request.event_s[0] for request in one.requests]) for one in rounds])
    tokens = [
        [request.token_s for request in one.requests if request.token_s is not None]
        for one in rounds
    ]
    token = timed([_median(times_s) for times_s in tokens if times_s])
    gaps_s = [gap_s for request in requests for gap_s in np.diff(request.event_s).tolist()]
    return {
        "first_token_s": first.time_s,
        "first_token_low_s": first.low_s,
        "first_token_high_s": first.high_s,
        "first_token_p99_s": _p99([request.event_s[0] for request in requests]),
        "token_s": token.time_s,
        "token_low_s": token.low_s,
        "token_high_s": token.high_s,
        "gap_p99_s": _p99(gaps_s),
    }


def _rates(row: GenerationRun, rounds: Sequence[GenerationRound]) -> dict[str, float | None]:
    """Tokens/s of the phases: the inverse of the time of a token over all requests."""
    rates: dict[str, float | None] = {}
    for name, times_s in (
        ("prefill", _prefill_s(row, rounds)),
        ("decode", _decode_s(rounds)),
        ("output", _output_s(rounds)),
    ):
        time = timed(times_s)
        rates[f"{name}_tokens_per_s"] = _inverse(time.time_s)
        rates[f"{name}_low_tokens_per_s"] = _inverse(time.high_s)
        rates[f"{name}_high_tokens_per_s"] = _inverse(time.low_s)
    return rates


def _prefill_s(row: GenerationRun, rounds: Sequence[GenerationRound]) -> list[float]:
    """Of each round, seconds for each token of its prompts."""
    n_tokens = row.prompt_tokens * row.concurrency
    return [(one.decode_start_s - one.start_s) / n_tokens for one in rounds]


def _decode_s(rounds: Sequence[GenerationRound]) -> list[float]:
    """Of each round, seconds for each token of its decode."""
    return [
        (one.end_s - one.decode_start_s) / one.decoded_tokens
        for one in rounds
        if one.decoded_tokens
    ]


def _output_s(rounds: Sequence[GenerationRound]) -> list[float]:
    """Of each round, seconds for each token of its answers, prompts included."""
    return [(one.end_s - one.start_s) / one.n_tokens for one in rounds]


def _server_times(requests: Sequence[GenerationRequest]) -> dict[str, float | None]:
    prompts_s = [request.server_prompt_s for request in requests]
    tokens_s = [
        request.server_decode_s / (request.n_tokens - 1)
        for request in requests
        if request.server_decode_s is not None and request.n_tokens > 1
    ]
    known_s = [time_s for time_s in prompts_s if time_s is not None]
    return {
        "server_prompt_s": _median(known_s) if known_s else None,
        "server_token_s": _median(tokens_s) if tokens_s else None,
    }


def _energies(
    row: GenerationRun, rounds: Sequence[GenerationRound]
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Energies of a token and powers of both phases, and why some are not known."""
    prefills = row.prefills or tuple(one.prefill for one in rounds if one.prefill is not None)
    decodes = tuple(one.decode for one in rounds if one.decode is not None)
    wholes = tuple(one.whole for one in rounds if one.whole is not None)
    values: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for name, field, windows, times_s in (
        ("prefill", "prefill", prefills, _prefill_s(row, rounds)),
        ("decode", "decode", decodes, _decode_s(rounds)),
        ("output", "whole", wholes, _output_s(rounds)),
    ):
        energy, why = _energy(windows, times_s, (one.unknown.get(field) for one in rounds))
        values |= {
            f"{name}_token_j": energy.energy_j,
            f"{name}_token_low_j": energy.low_j,
            f"{name}_token_high_j": energy.high_j,
            f"{name}_w": energy.power_w,
        }
        reasons |= dict.fromkeys((f"{name}_token_{end}j" for end in ("", "low_", "high_")), why)
        reasons[f"{name}_w"] = why
    return values, reasons


def _energy(
    windows: Sequence[EnergyWindow], times_s: Sequence[float], whys: Iterable[str | None]
) -> tuple[CallEnergy, str]:
    energy = call_energy(windows, times_s)
    why = next(filter(None, whys), "") if not windows else energy.reason
    return energy, why or "no round counts"


def _reasons(row: GenerationRun, values: Mapping[str, Any]) -> dict[str, str]:
    few = f"a 99th percentile needs {_P99_NEEDS} values"
    one = "one round gives no interval" if len(row.counted) else "no round counts"
    reasons = dict.fromkeys(values, one)
    reasons |= dict.fromkeys(("first_token_p99_s", "gap_p99_s"), few)
    reasons |= dict.fromkeys(("server_prompt_s", "server_token_s"), "the server does not say")
    if row.generate_tokens == 1:
        names = [name for name in values if name.startswith(("token_", "decode_"))]
        reasons |= dict.fromkeys((*names, "gap_p99_s", "server_token_s"), "one token was asked for")
    return reasons | row.unknown


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _p99(values: Sequence[float]) -> float | None:
    """The 99th percentile, one of the values; None of too few."""
    if len(values) < _P99_NEEDS:
        return None
    return float(np.quantile(values, 0.99, method="inverted_cdf"))


def _inverse(seconds_s: float | None) -> float | None:
    return 1 / seconds_s if seconds_s else None
