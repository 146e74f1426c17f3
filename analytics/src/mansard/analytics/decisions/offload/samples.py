"""Recorded samples: how sure the local network was, and which network was right.

Arrays come from a file (``files``), a network that was run, or the user's program.

Probabilities are calibrated where of those that say p a share p is right. The expected calibration
error in bins of equal width is Σ n_b/n · |share right − mean p| (M. P. Naeini et al., AAAI 2015; C.
Guo et al., ICML 2017). Few samples have an error even when they are calibrated. So it is compared
with what calibrated ones would have: the number right in a bin has then the mean Σp and the
variance Σp(1 − p), and is drawn as normal (J. Bröcker, L. A. Smith, Weather and Forecasting 22,
2007).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.offload.records import Calibration
from mansard.core.errors import InputError

BINS = 15
_DRAWS = 4000


def calibration(
    samples: LabelledSamples, probability: Array, of: str, n_bins: int = BINS, seed: int = 0
) -> Calibration:
    """The expected calibration error of ``probability``, that the local network is right."""
    right = (samples.local == RIGHT).astype(np.float64)
    place = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)

    def sums(values: Array) -> Array:
        return np.asarray(np.bincount(place, values, n_bins), dtype=np.float64)

    counts = sums(np.ones(len(right)))
    said, was = sums(probability), sums(right)
    deviation = np.sqrt(sums(probability * (1 - probability)))
    error = float(np.abs(was - said).sum() / len(right))
    drawn = np.random.default_rng(seed).standard_normal((_DRAWS, n_bins)) * deviation
    drawn = np.clip(said + drawn, 0, counts) - said
    error_95 = float(np.quantile(np.abs(drawn).sum(axis=1) / len(right), 0.95))
    bins = tuple(
        (at / n_bins, int(counts[at]), said[at] / counts[at], was[at] / counts[at])
        for at in range(n_bins)
        if counts[at]
    )
    return Calibration(
        of=of,
        n_bins=n_bins,
        error=error,
        error_95=error_95,
        is_rejected=error > error_95,
        bins=tuple((edge, n, float(mean), float(share)) for edge, n, mean, share in bins),
    )


Array = NDArray[np.float64]
Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and type
RIGHT, WRONG, UNANSWERED = 1, 0, -1
# Names that a column or an array may have, the first that is there.
NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "p1": ("p1", "top1", "confidence"),
        "p2": ("p2", "top2"),
        "predicted": ("predicted", "prediction", "local"),
        "label": ("label", "labels", "truth"),
        "remote": ("remote", "server", "remote_predicted"),
        "probabilities": ("probabilities", "softmax"),
        "logits": ("logits",),
        "local_right": ("local_right",),
        "remote_right": ("remote_right",),
    }
)
_MOST_SAMPLES = 10_000_000  # 200 times ImageNet's validation set
# Probabilities miss 1 by their rounding: half a step of 8 bits, 1/127, for each class.
_SUM_SLACK, _CLASS_SLACK = 0.05, 1 / 254
_SLACK = 1e-6  # by which rounding takes a probability out of 0 to 1
_BLOCK = 4096  # rows that are worked on at once
_VECTORS = ("probabilities", "logits")
_FIX = "give the outputs of a softmax, or logits under this name"
_NEEDED = (
    "give p1 (or probabilities, or logits), predicted, label and remote: docs/use/hierarchical.md"
)


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Arrays of one length, in the order of the recording.

    ``p1``, ``p2``: the two largest outputs as probabilities; ``p2`` None where only one is known.
    ``local``: RIGHT or WRONG; ``remote``: RIGHT, WRONG or UNANSWERED; ``agrees``: whether the
    remote network says the same as the local one (RIGHT or WRONG), UNANSWERED where nothing tells.
    """

    p1: Array
    p2: Array | None
    local: NDArray[np.int8]
    remote: NDArray[np.int8]
    agrees: NDArray[np.int8]
    n_classes: int = 0  # outputs of the local network; 0: not recorded

    def __len__(self) -> int:
        return len(self.p1)

    def at(self, rows: NDArray[Any]) -> LabelledSamples:
        """Some of the samples, by their indices or by a mask."""
        p2 = None if self.p2 is None else self.p2[rows]
        arrays = (self.p1[rows], p2, self.local[rows], self.remote[rows], self.agrees[rows])
        return LabelledSamples(*arrays, n_classes=self.n_classes)


def make_samples(arrays: Mapping[str, NDArray[Any]], where: str) -> LabelledSamples:
    """Samples from arrays by their names (``NAMES``); raises InputError with the row.

    ``probabilities`` and ``logits``: samples × classes; the softmax of logits is taken here. Their
    largest class is the prediction where there is no ``predicted``. ``label`` and ``predicted`` are
    classes, numbers or texts; ``remote`` too, where empty or negative means no answer. In the
    place of classes ``local_right`` and ``remote_right`` say 1 or 0 (−1: no answer).
    ``n_classes``: one number, of outputs that p1 and p2 are the largest of.
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    check_headers({name: (column.shape, column.dtype) for name, column in arrays.items()}, where)
    columns = {name: _flat(name, arrays[given]) for name, given in _given_names(arrays).items()}
    vectors = next((columns[name] for name in _VECTORS if name in columns), None)
    n_outputs = int(arrays["n_classes"]) if vectors is None and "n_classes" in arrays else 0
    n_outputs = n_outputs if vectors is None else vectors.shape[1]
    samples = _right_or_wrong(columns, where)
    return replace(samples, n_classes=n_outputs)


def _right_or_wrong(columns: Mapping[str, NDArray[Any]], where: str) -> LabelledSamples:
    p1, p2, own_classes = _confidences(columns, where)
    n = len(p1)
    label, remote = columns.get("label"), columns.get("remote")
    predicted = columns.get("predicted", own_classes)
    if "local_right" in columns:
        local = _truths("local_right", columns["local_right"], where, is_open=False)
    elif label is None or predicted is None:
        what = "label" if label is None else "predicted"
        raise InputError(f"has no {what} to tell right from wrong", where=where, fix=_NEEDED)
    else:
        n_classes = next((columns[name].shape[1] for name in _VECTORS if name in columns), None)
        _check_classes("label", label, where, None if "predicted" in columns else n_classes)
        _check_classes("predicted", predicted, where)
        local = _same(predicted, label, where).astype(np.int8)
    unanswered = np.full(n, UNANSWERED, dtype=np.int8)
    if "remote_right" in columns:
        right = _truths("remote_right", columns["remote_right"], where, is_open=True)
        # Whether both give the same class is known only where one of them is right.
        is_decided = (right != UNANSWERED) & ((right == RIGHT) | (local == RIGHT))
        return LabelledSamples(
            p1, p2, local, right, np.where(is_decided, right == local, UNANSWERED).astype("i1")
        )
    if remote is None:
        return LabelledSamples(p1, p2, local, unanswered, unanswered)
    is_open = _is_missing(remote)
    if label is None:
        raise InputError("has remote answers but no label", where=where, fix=_NEEDED)
    right = np.where(is_open, UNANSWERED, _same(remote, label, where, is_open)).astype(np.int8)
    agrees = unanswered
    if predicted is not None:
        agrees = np.where(is_open, UNANSWERED, _same(remote, predicted, where, is_open))
    return LabelledSamples(p1, p2, local, right, agrees.astype(np.int8))


def check_headers(headers: Mapping[str, Header], where: str) -> None:
    """Raise InputError where arrays of these shapes and types are no samples."""
    names = _given_names(headers)
    for name, given in names.items():
        _check_header(name, *headers[given], where)
    confidence = next((name for name in ("p1", *_VECTORS) if name in names), None)
    if confidence is None:
        raise InputError("has no p1", where=where, fix=_NEEDED)
    n = headers[names[confidence]][0][0]
    if n == 0:
        raise InputError("holds no samples", where=where, fix=_NEEDED)
    if n > _MOST_SAMPLES:
        what = f"holds {n:,} samples, more than {_MOST_SAMPLES:,}"
        raise InputError(what, where=where, fix="give a random part of them")
    for name, given in names.items():
        n_rows = headers[given][0][0]
        if n_rows != n:
            raise InputError(
                f"{name} has {n_rows:,} rows, the confidences have {n:,}",
                where=where,
                fix="give one row for each sample, in the same order",
            )


def _given_names(given: Collection[str]) -> dict[str, str]:
    """The name that an array has in the file, by what it is."""
    return {
        name: next(alias for alias in names if alias in given)
        for name, names in NAMES.items()
        if any(alias in given for alias in names)
    }


def split(
    samples: LabelledSamples, held_out: float, seed: int
) -> tuple[LabelledSamples, LabelledSamples]:
    """A random share ``1 − held_out`` to choose by, and the others to judge by; 0: all to both."""
    if held_out == 0:
        return samples, samples
    n = len(samples)
    n_judged = min(n - 1, max(1, round(n * held_out)))
    if n < 2:
        raise InputError(
            "one sample cannot be split", where="the samples", fix="give more, or --held-out 0"
        )
    is_judged = np.zeros(n, dtype=bool)
    is_judged[np.random.default_rng(seed).permutation(n)[:n_judged]] = True
    return samples.at(~is_judged), samples.at(is_judged)


def reduced(scores: Array) -> Array:
    """What is needed of scores, samples × classes: samples × 6.

    The two largest, the class of the largest, the sum, the least, and log Σ exp. Where a score is
    NaN, the class is the number of classes, which no class has.
    """
    with np.errstate(invalid="ignore"):
        top = np.partition(scores, -2, axis=1)[:, -2:]
        log = top[:, 1] + np.log(np.exp(scores - top[:, 1:]).sum(axis=1))
        classes = np.where(np.isnan(log), scores.shape[1], scores.argmax(axis=1))
        rest = (scores.sum(axis=1), scores.min(axis=1), log)
    return np.column_stack([top[:, 1], top[:, 0], classes, *rest])


def are_probabilities(rows: Array) -> bool:
    """Whether the scores of ``reduced`` rows are all between 0 and 1, whatever they add up to."""
    return bool((rows[:, 0] <= 1 + _SLACK).all() and (rows[:, 4] >= -_SLACK).all())


def two_largest(rows: Array, name: str, n_classes: int, where: str) -> tuple[Array, Array]:
    """p1 and p2 of ``reduced`` rows of "probabilities" or "logits"; raises InputError.

    Probabilities of 8 bits add up to 1 within half a step for each of ``n_classes``.
    """
    rows = _numbers(name, rows, where)
    first, second, _, sums, least, log = rows.T
    if name == "logits":
        return np.exp(first - log), np.exp(second - log)
    _in_range(name, np.where(first > 1, first, least), where)
    is_wrong = np.abs(sums - 1) > max(_SUM_SLACK, n_classes * _CLASS_SLACK)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise InputError(
            f"row {row + 1:,}: the probabilities add up to {sums[row]:.4g}", where=where, fix=_FIX
        )
    return np.clip(first, 0, 1), np.clip(second, 0, 1)


def _flat(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """An array as it is needed: whole vectors, else one number or text for each sample."""
    return values if name in _VECTORS else values.reshape(-1)


def _check_header(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    n_dims = 2 if name in _VECTORS else 1
    if n_dims == 1 and shape[1:] == (1,):
        shape = shape[:1]
    if len(shape) != n_dims or (n_dims == 2 and shape[1] < 2):
        raise InputError(
            f"{name} has the shape {list(shape)}",
            where=where,
            fix="give samples × classes, two classes or more"
            if n_dims == 2
            else "give one value for each sample",
        )
    if dtype.kind not in "fiubUT":
        what = f"{name} holds {dtype}: neither numbers nor texts"
        raise InputError(what, where=where, fix=_NEEDED)


def _confidences(
    columns: Mapping[str, NDArray[Any]], where: str
) -> tuple[Array, Array | None, NDArray[Any] | None]:
    """p1, p2, and the class of p1 where whole vectors are given."""
    if "p1" not in columns:
        name = next(name for name in _VECTORS if name in columns)
        scores = columns[name]
        starts = range(0, len(scores), _BLOCK)  # by blocks: as float64 all are eight times uint8
        blocks = (_numbers(name, scores[at : at + _BLOCK], where, at) for at in starts)
        rows = np.concatenate([reduced(block) for block in blocks])
        return *two_largest(rows, name, scores.shape[1], where), rows[:, 2]
    p1 = _in_range("p1", _numbers("p1", columns["p1"], where), where)
    if "p2" not in columns:
        return p1, None, None
    p2 = _in_range("p2", _numbers("p2", columns["p2"], where), where)
    if (p2 > p1).any():
        row = int(np.argmax(p2 > p1))
        raise InputError(
            f"row {row + 1:,}: p2 is {p2[row]:.6g}, above p1, {p1[row]:.6g}",
            where=where,
            fix="p1 is the largest output and p2 the one after it",
        )
    return p1, p2, None


def _numbers(name: str, values: NDArray[Any], where: str, first_row: int = 0) -> Array:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} holds no numbers", where=where, fix=_NEEDED)
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = first_row + int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise InputError(
            f"row {row + 1:,}: {name} is not a finite number",
            where=where,
            fix="remove the row, or record it again",
        )
    return numbers


def _in_range(name: str, values: Array, where: str) -> Array:
    """``values`` between 0 and 1; what rounding took out of it is put back."""
    is_wrong = (values < -_SLACK) | (values > 1 + _SLACK)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        what = f"row {row + 1:,}: {name} is {values[row]:.9g}, outside 0 to 1"
        raise InputError(what, where=where, fix=_FIX)
    return np.clip(values, 0, 1)


def _truths(name: str, values: NDArray[Any], where: str, *, is_open: bool) -> NDArray[np.int8]:
    numbers = values.astype(np.float64) if values.dtype.kind in "fiub" else None
    if numbers is not None and is_open:
        numbers = np.where(np.isnan(numbers) | (numbers == UNANSWERED), UNANSWERED, numbers)
    allowed = (WRONG, RIGHT, UNANSWERED) if is_open else (WRONG, RIGHT)
    is_known = None if numbers is None else np.isin(numbers, allowed)
    if numbers is None or is_known is None or not is_known.all():
        row = 0 if is_known is None else int(np.argmin(is_known))
        raise InputError(
            f"row {row + 1:,}: {name} is neither 1 nor 0",
            where=where,
            fix="write 1 for right and 0 for wrong",
        )
    return numbers.astype(np.int8)


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values) | (values < 0))
    return np.asarray(values == "" if values.dtype.kind in "UT" else values < 0)


def _check_classes(
    name: str, values: NDArray[Any], where: str, n_classes: int | None = None
) -> None:
    """Raise InputError for what is no class, or none of ``n_classes``."""
    is_missing = _is_missing(values)
    if is_missing.any():
        raise InputError(
            f"row {int(np.argmax(is_missing)) + 1:,}: {name} is not a class",
            where=where,
            fix="give the class of every sample, a number from 0 on or a text",
        )
    if n_classes is not None and values.dtype.kind not in "UT" and values.max() >= n_classes:
        row = int(np.argmax(values >= n_classes))
        raise InputError(
            f"row {row + 1:,}: {name} is {values[row]:.9g}, and the classes are 0 to "
            f"{n_classes - 1}",
            where=where,
            fix="number the classes from 0 on",
        )


def _same(
    first: NDArray[Any],
    second: NDArray[Any],
    where: str,
    is_open: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Where two arrays of classes are equal; both of numbers, or both of texts."""
    if (first.dtype.kind in "UT") != (second.dtype.kind in "UT"):
        if is_open is None or not is_open.all():
            raise InputError(
                "one column of classes holds numbers, another texts",
                where=where,
                fix="call the classes alike in every column",
            )
        return np.zeros(len(first), dtype=bool)
    return np.asarray(first == second)
