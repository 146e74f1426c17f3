"""Imported runs of language models as prefill and decode, by the names of their scores.

A run keeps its tokens in its figures and behind its network's name: ``pp512`` and ``tg128 @ d4096``
of llama-bench, ``512in/128out x4`` of servers and tables. A step of decode is in the middle of the
answer: its cost is the mean, as it is linear in the context. A run gives a prefill only where its
prompts do not queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mansard.analytics.data.published.runs import lacks_batch
from mansard.core.records import PublishedRun
from mansard.estimator.decoding import Stage, stage_name

_WORKLOAD = re.compile(
    r"(?P<model>.+?)(?P<tests>(?: (?:pp[0-9]+(?:\+tg[0-9]+)?|tg[0-9]+|(?:[0-9]+in/)?[0-9]+out"
    r"|[0-9]+in))?(?: x[0-9.]+)?(?: @ d[0-9]+)?)"
)


class TimedRun(NamedTuple):
    """Seconds of a step, a prompt or a network, and watts where they are of it.

    ``precision``: None of a stage, which has that of its score.
    """

    network: str
    batch: int | None
    precision: str | None
    time_s: float | None
    power_w: float | None


def split_workload(network: str) -> tuple[str, str]:
    """The model of a network's name, and what follows it about the tokens."""
    match = _WORKLOAD.fullmatch(network)
    return (network, "") if match is None else (match["model"], match["tests"])


def timed_runs(run: PublishedRun) -> Iterator[TimedRun]:
    """The stages whose time and tokens ``run`` says, and the run itself.

    A run that is one stage, as a test of llama-bench, is not there twice; one whose batch is not
    known is there by its stages alone.
    """
    stages = tuple(_stages(run))
    yield from stages
    is_stage = len({"prompt_tokens", "generated_tokens"} & run.figures.keys()) == 1
    if not lacks_batch(run) and not (stages and is_stage):
        yield TimedRun(run.network, run.batch, run.precision, run.latency_s, run.power_w)


def _stages(run: PublishedRun) -> Iterator[TimedRun]:
    model, _ = split_workload(run.network)
    figures = run.figures
    prompt, generated, depth = (
        round(figures.get(f"{name}_tokens", 0.0)) for name in ("prompt", "generated", "depth")
    )
    n_at_once = figures.get("concurrency", float(run.batch or 1))
    batch = round(n_at_once)
    if batch != n_at_once:
        return  # a mean of requests that come and go
    context = depth + prompt + generated // 2
    token_s = figures.get("token_s") or _seconds(batch, figures.get("decode_tokens_per_s"))
    if token_s and (generated or depth) and context:
        power_w = figures.get("decode_power_w", None if prompt else run.power_w)
        yield TimedRun(stage_name(model, Stage(1, context)), batch, None, token_s, power_w)
    first_s = (
        figures.get("first_token_s")
        or _seconds(batch * prompt, figures.get("prefill_tokens_per_s"))
        or (None if generated else run.latency_s)
    )
    if first_s and prompt and not depth and batch in {1, run.batch}:
        power_w = None if generated else run.power_w
        yield TimedRun(stage_name(model, Stage(prompt, 0)), batch, None, first_s, power_w)


def _seconds(n_tokens: int, rate_per_s: float | None) -> float | None:
    return n_tokens / rate_per_s if rate_per_s else None
