"""The groups of many scores as columns of numbers, and which ceilings their work runs under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.predict.coefficient_table import Array, Key, cuda_peak, peak_key
from mansard.analytics.models.predict.groups import COMPUTED_IN, TENSOR

Codes = NDArray[np.int64]
_COUNTS = ("tensor_flop", "cuda_flop", "traffic_bytes")
_MOST = 1e30  # of any count; times a coefficient it is still a number
NONE = -1  # the code of no precision
# A GPU whose tensor cores multiply these computes them on CUDA cores at least as fast as fp32
# (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions").
NO_SLOWER_THAN_FP32 = ("fp16", "bf16")


@dataclass(frozen=True, eq=False)
class WorkTable:
    """Groups of all scores, those of one score together; NaN is unknown. FLOP, bytes.

    ``tensor`` and ``cuda`` are the precisions of the work as places in ``precisions``, NONE where
    there is no such work. ``factor`` is what a calibration multiplies a group's time with.
    """

    spans: Mapping[str, slice]  # of each score
    precisions: tuple[str, ...]
    tensor: Codes
    tensor_flop: Array
    cuda: Codes
    cuda_flop: Array
    traffic_bytes: Array
    n_launches: Array
    factor: Array
    reasons: pl.Series  # why work or traffic is unknown; null where it is known

    def of(self, score: str) -> WorkTable:
        """The groups of one score; none where it has none."""
        span = self.spans.get(score, slice(0, 0))
        return WorkTable(
            {score: slice(0, span.stop - span.start)},
            self.precisions,
            self.tensor[span],
            self.tensor_flop[span],
            self.cuda[span],
            self.cuda_flop[span],
            self.traffic_bytes[span],
            self.n_launches[span],
            self.factor[span],
            self.reasons[span],
        )

    def reason(self) -> str | None:
        """Why the work or traffic of a group is unknown, in one line; None where all is known."""
        found = self.reasons.drop_nulls().unique().sort().to_list()
        lost = np.isnan(self.tensor_flop + self.cuda_flop + self.traffic_bytes).any()
        return "; ".join(found) or ("the work or traffic of a group is unknown" if lost else None)


def busy_groups(groups: pl.DataFrame) -> pl.DataFrame:
    """The rows of a WorkTable of ``groups``: those that work, move or start something, in order."""
    idle = pl.all_horizontal(pl.col(*_COUNTS, "n_launches") == 0)
    return groups.filter(~idle.fill_null(value=False)).sort("score_id", "group")


def work_table(groups: pl.DataFrame, efficiency: Mapping[str, float] | None = None) -> WorkTable:
    """GROUP_SCHEMA as columns; groups that neither work nor move nor start anything are left out.

    ``efficiency``: what the time of a group of each op_class is multiplied with; 1 for a class
    that is not in it, and a factor that is not above 0 raises ValueError. Work or traffic that
    cannot be (negative, NaN) is unknown.
    """
    factors = efficiency or {}
    for name, factor in factors.items():
        if not 0 < factor < _MOST:
            raise ValueError(f"the time of {name} cannot be multiplied with {factor}")
    found = busy_groups(groups).with_columns(
        pl.when(pl.col(*_COUNTS).is_between(0.0, _MOST)).then(pl.col(*_COUNTS))
    )
    names = pl.concat([found["tensor_precision"], found["cuda_precision"]]).drop_nulls()
    precisions = tuple(names.unique().sort().to_list())
    codes = {name: code for code, name in enumerate(precisions)}
    # Work in no precision has no peak that could be looked for.
    found = found.with_columns(
        pl.when(pl.col(f"{kind}_precision").is_not_null() | (pl.col(f"{kind}_flop") == 0)).then(
            f"{kind}_flop"
        )
        for kind in ("tensor", "cuda")
    )
    lengths = found.group_by("score_id", maintain_order=True).len()
    ends = lengths["len"].cum_sum()
    spans = {
        score: slice(end - length, end)
        for score, length, end in zip(lengths["score_id"], lengths["len"], ends, strict=True)
    }
    tensor_flop, cuda_flop, traffic = (
        found[name].fill_null(np.nan).to_numpy().astype(np.float64) for name in _COUNTS
    )
    return WorkTable(
        spans=spans,
        precisions=precisions,
        tensor=_codes(found["tensor_precision"], codes, tensor_flop),
        tensor_flop=tensor_flop,
        cuda=_codes(found["cuda_precision"], codes, cuda_flop),
        cuda_flop=cuda_flop,
        traffic_bytes=traffic,
        n_launches=found["n_launches"].fill_null(1).to_numpy().astype(np.float64),
        factor=_factors(found["op_class"], factors),
        reasons=found["reason"],
    )


def _codes(names: pl.Series, codes: Mapping[str, int], flop: Array) -> Codes:
    found = names.replace_strict(codes, default=NONE, return_dtype=pl.Int64)
    return np.where(flop > 0, found.fill_null(NONE).to_numpy(), NONE)  # no work needs no peak


def _factors(classes: pl.Series, factors: Mapping[str, float]) -> Array:
    found = classes.replace_strict(dict(factors), default=1.0, return_dtype=pl.Float64)
    return np.asarray(found.fill_null(1.0))


@dataclass(frozen=True, eq=False)
class CeilingAssignment:
    """Under which ceilings the work of each precision runs where certain peaks are known.

    ``keys``: the ceilings; ``tensor`` and ``cuda`` are places in it, for each precision of a
    WorkTable and then NONE for NONE. A ceiling that is not known is in it too: it is what is
    missing.
    """

    keys: tuple[Key, ...]
    tensor: Codes
    cuda: Codes


def assign_ceilings(precisions: tuple[str, ...], given: frozenset[Key]) -> CeilingAssignment:
    """Which of the peaks that modes have, ``given``, the work of each of ``precisions`` runs under.

    Work for tensor cores runs on CUDA cores where a mode has no such peak on tensor cores (tf32
    as fp32); one that it has but that is not known is missed. Work in fp16 or bf16 on CUDA cores
    runs at the fp32 peak where it has none of its own but one on tensor cores.
    """
    tensor = [_tensor_key(name, given) for name in precisions]
    cuda = [_cuda_key(name, given) for name in precisions]
    keys = tuple(dict.fromkeys((*tensor, *cuda)))
    places = {key: at for at, key in enumerate(keys)}
    return CeilingAssignment(
        keys,
        np.array([*(places[key] for key in tensor), NONE]),
        np.array([*(places[key] for key in cuda), NONE]),
    )


def _tensor_key(precision: str, given: frozenset[Key]) -> Key:
    own = peak_key(TENSOR, precision)
    return own if own in given else cuda_peak("fp32" if precision == "tf32" else precision)


def _cuda_key(precision: str, given: frozenset[Key]) -> Key:
    own = cuda_peak(COMPUTED_IN.get(precision, precision))
    if own in given or precision not in NO_SLOWER_THAN_FP32:
        return own
    return cuda_peak("fp32") if peak_key(TENSOR, precision) in given else own
