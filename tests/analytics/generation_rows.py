"""Made-up rows of servers of language models, by the times of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.records import EnergyWindow, GenerationRequest, GenerationRound, GenerationRun
from tests.analytics.factory import calm, manifest, write_run


def write_generations(runs: Path, rows: Sequence[GenerationRun], **known: Any) -> Path:
    """A run of a server in the folder ``runs``: ``rows`` are of one run."""
    run = manifest(rows[0].run_id, 2, len(rows), kind="generations", **known)
    return write_run(runs / run.run_id, run, rows)


def generation_request(sent_s: float, event_s: Sequence[float], **known: Any) -> GenerationRequest:
    """A request to a server that counts tokens as its events, and has no timings."""
    values: dict[str, Any] = {
        "prompt_tokens": 100,
        "cached_tokens": 0,
        "generated_tokens": len(event_s),
        "server_prompt_s": None,
        "server_decode_s": None,
    } | known
    return GenerationRequest(
        sent_s=sent_s,
        event_s=tuple(event_s),
        end_s=event_s[-1],
        streamed_tokens=len(event_s),
        unknown={name: "not told" for name, value in values.items() if value is None},
        **values,
    )


def generation_round(
    requests: Sequence[GenerationRequest],
    *,
    rejected: str = "",
    prefill: EnergyWindow | None = None,
    decode: EnergyWindow | None = None,
    whole: EnergyWindow | None = None,
) -> GenerationRound:
    """A round; its energies are unknown by default."""
    windows = {"prefill": prefill, "decode": decode, "whole": whole}
    return GenerationRound(
        requests=tuple(requests),
        rejected=rejected,
        unknown={name: "no meter" for name, window in windows.items() if window is None},
        **windows,
    )


def generation(run_id: str, rounds: Sequence[GenerationRound], **known: Any) -> GenerationRun:
    """A server that answered these rounds after a warm-up; everything else is ``known``."""
    warm_up = msgspec.structs.replace(rounds[0], rejected="the first round, which warms up")
    started = ("command", "server_hash", "memory_bytes", "memory_taken_bytes", "load_s")
    values: dict[str, Any] = {
        "trial_id": "g" * 16,
        "source": "measured",
        "workload": "tiny",
        "model": "tiny",
        "server": "llama.cpp",
        "server_version": "b1",
        "api": "completion",
        "address": "http://localhost:8080",
        **dict.fromkeys(started),
        "environment": {},
        "prompt_tokens": 100,
        "prompt_counting": "tokeniser",
        "generate_tokens": max(r.n_tokens for one in rounds for r in one.requests),
        "concurrency": len(rounds[0].requests),
        "seed": 1,
        "rounds": (warm_up, *rounds),
        "prefills": None,
        "stability": "stable",
        "stability_interval": 0.01,
        "conditions": calm(),
        "disturbances": (),
        "started_utc": "2026-01-02T05:00:00Z",
        "duration_s": 10.0,
    } | known
    unknown = {name: "not asked for" for name, value in values.items() if value is None}
    return GenerationRun(run_id=run_id, unknown=unknown, **values)
