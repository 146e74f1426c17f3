"""Servers of language models as observations: prefill and decode, each as a network of its own.

``NAME [prefill P]``: C prompts of P tokens, from the first request sent to the first token of the
last; its batch is C. ``NAME [decode N]``: a step that makes a token for each of C requests behind N
cached ones, the mean of the round: the prompt and half of the answer. The time of a step is that of
a token of a request. Names and batches are those of the stages' scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mansard.analytics.data.names import display_name
from mansard.core.records import EnergyWindow, GenerationRun
from mansard.core.records.generation import MOST_OVERLAP
from mansard.estimator.decoding import Stage, stage_name

# What ``observations`` makes of times, windows and why there is none.
Values = Callable[[Sequence[float], Sequence[EnergyWindow], "str | None"], dict[str, object]]


def decode_stage(prompt_tokens: int, generate_tokens: int) -> Stage:
    """The step in the middle of an answer: its cost is the mean, as it is linear in the context."""
    return Stage(1, prompt_tokens + generate_tokens // 2)


def generation_rows(run: GenerationRun, values: Values) -> Iterator[dict[str, object]]:
    """OBSERVATION_SCHEMA without device and mode, of the phases that can be told apart."""
    rounds = run.counted
    if run.disturbances or not rounds:
        return
    n_prompt_tokens = run.prompt_tokens * run.concurrency
    prefills_s = [one.decode_start_s - one.start_s for one in rounds]
    windows = run.prefills or tuple(one.prefill for one in rounds if one.prefill is not None)
    if max(one.overlap for one in rounds) <= MOST_OVERLAP:
        yield _row(run, Stage(run.prompt_tokens, 0), prefills_s, n_prompt_tokens, windows, values)
    tokens_s = [
        float(np.median(times_s))
        for one in rounds
        if (times_s := [r.token_s for r in one.requests if r.token_s is not None])
    ]
    if tokens_s:
        stage = decode_stage(run.prompt_tokens, run.generate_tokens)
        windows = tuple(one.decode for one in rounds if one.decode is not None)
        yield _row(run, stage, tokens_s, run.concurrency, windows, values)


def _row(
    run: GenerationRun,
    stage: Stage,
    times_s: Sequence[float],
    n_tokens: int,
    windows: Sequence[EnergyWindow],
    values: Values,
) -> dict[str, object]:
    """``times_s``: of a batch, which is ``n_tokens`` of the windows' repetitions."""
    name = "decode" if stage.n_cached else "prefill"
    why = next((one.unknown[name] for one in run.counted if name in one.unknown), None)
    of_token = values([time_s / n_tokens for time_s in times_s], windows, why)
    return {
        "network": stage_name(display_name(run.workload), stage),
        "batch": run.concurrency,
        "phase": "inference",
        "engine": run.server,
        **of_token,
        "latency_s": float(np.median(times_s)),
        "source": run.source,
    }
