"""Language models in decisions: modes are compared by decode, and prefill bounds the first token.

A language model is predicted in two stages, ``NAME [prefill 512]`` and ``NAME [decode 512]``. The
question is about decode: an item is a token. The time to the first token is that of prefill in the
same mode and batch, so a limit on it selects modes before anything is compared, as a limit on the
drop of accuracy selects precisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.names import stage_of
from mansard.analytics.decisions.records import Candidate, Holds, Wanted
from mansard.analytics.decisions.values import BROKEN, KEPT, Values, read_values
from mansard.core.errors import UsageError

_PLACE = ("device", "network", "mode", "batch", "precision")


@dataclass(frozen=True, kw_only=True)
class FirstToken:
    """What is known of the first token of a choice, and of the limit on it.

    ``prefill``: the stage in the mode of the choice; None where it was not predicted. ``holds``:
    whether it keeps ``limit_s``; "kept" without a limit. ``left_out``: modes in which it is
    not known to, with their seconds.
    """

    prefill: Candidate | None
    n_tokens: int
    limit_s: float | None
    holds: Holds
    left_out: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class FirstTokens:
    """``predictions`` without prefill, and without the modes whose first token is too late."""

    predictions: pl.DataFrame
    prefill: pl.DataFrame  # PREDICTION_SCHEMA, and the network ``decode`` that it comes before
    wanted: Wanted
    left_out: Mapping[tuple[str, str], Mapping[str, float]]  # by device and network

    def of(self, choice: Candidate) -> FirstToken | None:
        """The first token in the mode of ``choice``; None of a network without stages."""
        named = stage_of(choice.network)
        if named is None or named[1] != "decode":
            return None
        rows = self.prefill.filter(
            device=choice.device, decode=choice.network, mode=choice.mode, batch=choice.batch
        )
        values = read_values(rows.drop("decode"), self.wanted)
        left_out = self.left_out.get((choice.device, choice.network), {})
        limit_s = self.wanted.max_first_token_s
        if not len(values):
            return FirstToken(
                prefill=None, n_tokens=0, limit_s=limit_s, holds="unknown", left_out=left_out
            )
        prefill = values.candidate(0)
        held: dict[int, Holds] = {KEPT: "kept", BROKEN: "broken"}
        named = stage_of(prefill.network)
        return FirstToken(
            prefill=prefill,
            n_tokens=named[2] if named else 0,
            limit_s=limit_s,
            holds=held.get(int(_held(values, self.wanted)[0]), "unknown"),
            left_out=left_out,
        )


def screen_first_tokens(predictions: pl.DataFrame, wanted: Wanted) -> FirstTokens:
    """PREDICTION_SCHEMA, compared with ``wanted.max_first_token_s``; raises UsageError."""
    limit_s = wanted.max_first_token_s
    if limit_s is not None and not (math.isfinite(limit_s) and limit_s > 0):
        raise UsageError(
            f"a limit on the first token cannot be {limit_s:g} s", fix="give a time above 0"
        )
    names = predictions["network"].unique().sort().to_list()
    pairs = _pairs(names)
    is_paired = pl.col("network").is_in(sorted({prefill for _, prefill in pairs}))
    columns = {"decode": pl.String, "network": pl.String}
    decodes = pl.DataFrame(pairs, schema=columns, orient="row")
    prefill = predictions.filter(is_paired).join(decodes, on="network")
    # Of a model whose prefill alone is known, that is the question.
    kept = predictions.filter(~is_paired)
    left_out: dict[tuple[str, str], dict[str, float]] = {}
    if limit_s is not None:
        if not any(stage_of(name) for name in names):
            raise UsageError(
                "a limit on the first token is for language models", fix="leave it out"
            )
        slow = _too_slow(prefill, wanted)
        for row in kept.join(slow, on=list(_PLACE), nulls_equal=True).to_dicts():
            of_network = left_out.setdefault((row["device"], row["network"]), {})
            of_network[row["mode"]] = row["first_token_s"]
        kept = _without_slow(kept, slow)
    return FirstTokens(kept, prefill, wanted, left_out)


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each decode with the prefill before it: of the longest prompt that is in its context."""
    staged = [(name, stage) for name in names if (stage := stage_of(name)) is not None]
    pairs = []
    for decode, (model, kind, n_cached) in staged:
        if kind != "decode":
            continue
        prompts = {n: name for name, (of, at, n) in staged if (of, at) == (model, "prefill")}
        if prompts:
            inside = [n for n in prompts if n <= n_cached] or [min(prompts)]
            pairs.append((decode, prompts[max(inside)]))
    return pairs


def _without_slow(rows: pl.DataFrame, slow: pl.DataFrame) -> pl.DataFrame:
    """``rows`` without those of ``slow``; where none would be left, the one of the least time."""
    left = rows.join(slow, on=list(_PLACE), how="anti", nulls_equal=True)
    lost = rows.join(left, on=["device", "network"], how="anti")
    timed = lost.join(slow, on=list(_PLACE), nulls_equal=True)
    nearest = pl.col("first_token_s") == pl.col("first_token_s").min().over("device", "network")
    return pl.concat([left, timed.filter(nearest).select(rows.columns)])


def _too_slow(prefill: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """The places of decode whose first token is too late, with its seconds.

    Where some modes are known to keep the limit, these are all others. Else they are the modes
    that break it, but none that is expected before one whose wider interval leaves it open.
    """
    frames = []
    for rows in prefill.partition_by("device", "decode", maintain_order=True):
        values = read_values(rows.drop("decode"), wanted)
        held, times_s = _held(values, wanted), values.frame["latency_s"].fill_null(0.0).to_numpy()
        is_late = held != KEPT
        if is_late.all():
            is_late = held == BROKEN
            is_late &= times_s > max(times_s[~is_late], default=0.0)
        frame = values.frame[np.flatnonzero(is_late).tolist()].with_columns(
            network=pl.lit(rows["decode"][0]), first_token_s=pl.col("latency_s")
        )
        frames.append(frame.select(*_PLACE, "first_token_s"))
    schema = {name: prefill.schema[name] for name in _PLACE} | {"first_token_s": pl.Float64}
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _held(values: Values, wanted: Wanted) -> NDArray[np.int8]:
    limit_s = wanted.max_first_token_s
    if limit_s is None:
        return np.full(len(values), KEPT, dtype=np.int8)
    return values.latency.holds(limit_s, wanted.probability)
