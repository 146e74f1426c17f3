"""Language models in decisions: modes are compared by decode, and prefill bounds the first token.

A language model is predicted in two stages, ``NAME [prefill 512]`` and ``NAME [decode 512]``. The
question is about decode: an item is a token. The time to the first token is that of prefill in the
same mode and batch, so a limit on it selects modes before anything is compared, as a limit on the
drop of accuracy selects precisions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decisions.records import Candidate, Holds, Wanted
from mansard.analytics.decisions.values import BROKEN, KEPT, Values, read_values
from mansard.core.errors import UsageError

_STAGE = re.compile(r"(?P<model>.+) \[(?P<stage>prefill|decode) (?P<tokens>\d+)\]")
_PLACE = ("device", "model", "mode", "batch", "precision")


@dataclass(frozen=True, kw_only=True)
class FirstToken:
    """What is known of the first token of a choice, and of the limit on it.

    ``prefill``: the stage in the mode of the choice; None where it was not predicted. ``holds``:
    whether it keeps ``limit_s``; "kept" without a limit. ``left_out``: modes in which it does not,
    with their seconds.
    """

    prefill: Candidate | None
    n_tokens: int
    limit_s: float | None
    holds: Holds
    left_out: Mapping[str, float]


def stage_of(network: str) -> tuple[str, str, int] | None:
    """The model, its stage and the tokens of a name; None where it is of no stage."""
    match = _STAGE.fullmatch(network)
    return None if match is None else (match["model"], match["stage"], int(match["tokens"]))


@dataclass(frozen=True, eq=False)
class FirstTokens:
    """``predictions`` without prefill, and without the modes whose first token comes too late."""

    predictions: pl.DataFrame
    prefill: pl.DataFrame  # PREDICTION_SCHEMA, and the column ``model``
    wanted: Wanted
    left_out: Mapping[tuple[str, str], Mapping[str, float]]  # by device and network

    def of(self, choice: Candidate) -> FirstToken | None:
        """The first token in the mode of ``choice``; None of a network without stages."""
        named = stage_of(choice.network)
        if named is None or named[1] != "decode":
            return None
        rows = self.prefill.filter(
            device=choice.device, model=named[0], mode=choice.mode, batch=choice.batch
        )
        values = read_values(rows.drop("model"), self.wanted)
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
    names = {name: stage_of(name) for name in predictions["network"].unique().to_list()}
    models = {name: stage[0] for name, stage in names.items() if stage is not None}
    prefills = [name for name, stage in names.items() if stage and stage[1] == "prefill"]
    is_prefill = pl.col("network").is_in(prefills)
    model = pl.col("network").replace_strict(models, default=None, return_dtype=pl.String)
    staged = predictions.with_columns(model=model)
    prefill, rest = staged.filter(is_prefill), staged.filter(~is_prefill)
    decoded = rest.filter(pl.col("model").is_not_null())
    alone = prefill.join(decoded, on=["device", "model"], how="anti", nulls_equal=True)
    # Of a model whose prefill alone is known, that is the question.
    kept = pl.concat([rest, alone])
    left_out: dict[tuple[str, str], dict[str, float]] = {}
    if limit_s is not None:
        if decoded.is_empty():
            raise UsageError(
                "a limit on the first token is for language models", fix="leave it out"
            )
        slow = _too_slow(prefill, wanted)
        broken = kept.join(slow, on=list(_PLACE), how="semi", nulls_equal=True)
        for row in broken.join(slow, on=list(_PLACE), nulls_equal=True).to_dicts():
            of = left_out.setdefault((row["device"], row["network"]), {})
            of[row["mode"]] = row["first_token_s"]
        kept = _without_slow(kept, slow)
    return FirstTokens(kept.drop("model"), prefill, wanted, left_out)


def _without_slow(rows: pl.DataFrame, slow: pl.DataFrame) -> pl.DataFrame:
    """``rows`` without those of ``slow``; where none would be left, the one of the least time."""
    left = rows.join(slow, on=list(_PLACE), how="anti", nulls_equal=True)
    lost = rows.join(left, on=["device", "network"], how="anti")
    timed = lost.join(slow, on=list(_PLACE), nulls_equal=True)
    nearest = pl.col("first_token_s") == pl.col("first_token_s").min().over("device", "network")
    return pl.concat([left, timed.filter(nearest).select(rows.columns)])


def _too_slow(prefill: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """The places whose first token breaks the limit, with its seconds."""
    frames = []
    for rows in prefill.partition_by("device", "network", maintain_order=True):
        values = read_values(rows.drop("model"), wanted)
        broken = np.flatnonzero(_held(values, wanted) == BROKEN)
        frame = values.frame[broken.tolist()].with_columns(
            model=pl.lit(rows["model"][0]), first_token_s=pl.col("latency_s")
        )
        frames.append(frame.select(*_PLACE, "first_token_s"))
    schema = {name: prefill.schema[name] for name in _PLACE} | {"first_token_s": pl.Float64}
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _held(values: Values, wanted: Wanted) -> NDArray[np.int8]:
    limit_s = wanted.max_first_token_s
    if limit_s is None:
        return np.full(len(values), KEPT, dtype=np.int8)
    return values.latency.holds(limit_s, wanted.probability)
