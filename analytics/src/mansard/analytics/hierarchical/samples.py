"""Recorded samples: what the local network was how sure of, and who was right.

Arrays come from a file (``sample_tables``), a network that was run, or the user's program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.core.errors import InputError

Array = NDArray[np.float64]
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
_SUM_SLACK = 0.05  # outputs of 8 bits add up to 1 within their steps
_NEEDED = "give p1 (or probabilities, or logits), predicted, label and remote: docs/hierarchical.md"


@dataclass(frozen=True, eq=False)
class Samples:
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

    def __len__(self) -> int:
        return len(self.p1)

    def at(self, rows: NDArray[Any]) -> Samples:
        """Some of the samples, by their indices or by a mask."""
        p2 = None if self.p2 is None else self.p2[rows]
        arrays = (self.p1[rows], p2, self.local[rows], self.remote[rows], self.agrees[rows])
        return Samples(*arrays)


def make_samples(arrays: Mapping[str, NDArray[Any]], where: str) -> Samples:
    """Samples from arrays by their names (``NAMES``); raises InputError with the row.

    ``probabilities`` and ``logits``: samples × classes; the softmax of logits is taken here. Their
    largest class is the prediction where there is no ``predicted``. ``label`` and ``predicted`` are
    classes, numbers or texts; ``remote`` too, where empty or negative means no answer. In the
    place of classes ``local_right`` and ``remote_right`` say 1 or 0 (−1: no answer).
    """
    found = {name: _named(arrays, names) for name, names in NAMES.items()}
    p1, p2, predicted = _confidences(found, where)
    n = len(p1)
    if n == 0:
        raise InputError("holds no samples", where=where, fix=_NEEDED)
    predicted = found["predicted"] if found["predicted"] is not None else predicted
    label, remote = found["label"], found["remote"]
    for name, array in (("predicted", predicted), *found.items()):
        if array is not None and len(array) != n:
            raise InputError(
                f"{name} has {len(array):,} rows, the confidences have {n:,}",
                where=where,
                fix="give one row for each sample, in the same order",
            )
    if found["local_right"] is not None:
        local = _truths("local_right", found["local_right"], where, is_open=False)
    elif label is None or predicted is None:
        what = "label" if label is None else "predicted"
        raise InputError(f"has no {what}, so nobody knows who is right", where=where, fix=_NEEDED)
    else:
        _check_classes("label", label, where)
        _check_classes("predicted", predicted, where)
        local = _same(predicted, label, where).astype(np.int8)
    unanswered = np.full(n, UNANSWERED, dtype=np.int8)
    if found["remote_right"] is not None:
        right = _truths("remote_right", found["remote_right"], where, is_open=True)
        # Whether it says the same is told only where one of the two is right.
        told = (right != UNANSWERED) & ((right == RIGHT) | (local == RIGHT))
        return Samples(
            p1, p2, local, right, np.where(told, right == local, UNANSWERED).astype("i1")
        )
    if remote is None:
        return Samples(p1, p2, local, unanswered, unanswered)
    is_open = _is_missing(remote)
    if label is None:
        raise InputError("has remote answers but no label", where=where, fix=_NEEDED)
    right = np.where(is_open, UNANSWERED, _same(remote, label, where, is_open)).astype(np.int8)
    agrees = unanswered
    if predicted is not None:
        agrees = np.where(is_open, UNANSWERED, _same(remote, predicted, where, is_open))
    return Samples(p1, p2, local, right, agrees.astype(np.int8))


def split(samples: Samples, held_out: float, seed: int) -> tuple[Samples, Samples]:
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


def _named(arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((np.asarray(arrays[name]) for name in names if name in arrays), None)


def _confidences(
    found: Mapping[str, NDArray[Any] | None], where: str
) -> tuple[Array, Array | None, NDArray[Any] | None]:
    """p1, p2, and the class of p1 where whole vectors are given."""
    for name in ("probabilities", "logits"):
        vectors = found[name]
        if vectors is None or found["p1"] is not None:
            continue
        outputs = _numbers(name, vectors, where)
        if outputs.ndim != 2 or outputs.shape[1] < 2:
            raise InputError(
                f"{name} has the shape {list(outputs.shape)}",
                where=where,
                fix="give samples × classes, two classes or more",
            )
        if len(outputs) == 0:
            return np.empty(0), None, None
        values = softmax(outputs) if name == "logits" else outputs
        _check_range(name, values, where)
        _check_sums(values, where)
        top = np.argpartition(values, -2, axis=1)[:, -2:]
        pair = np.take_along_axis(values, top, axis=1)
        return pair.max(axis=1), pair.min(axis=1), values.argmax(axis=1)
    if found["p1"] is None:
        raise InputError("has no p1", where=where, fix=_NEEDED)
    p1 = _column("p1", found["p1"], where)
    p2 = None if found["p2"] is None else _column("p2", found["p2"], where)
    if p2 is not None and len(p2) == len(p1) and (p2 > p1).any():
        row = int(np.argmax(p2 > p1))
        raise InputError(
            f"row {row + 1:,}: p2 is {p2[row]:.6g}, above p1, {p1[row]:.6g}",
            where=where,
            fix="p1 is the largest output and p2 the one after it",
        )
    return p1, p2, None


def softmax(logits: Array) -> Array:
    """exp(x) over the sum of each row, without overflow."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _column(name: str, values: NDArray[Any], where: str) -> Array:
    column = _numbers(name, values, where)
    if column.ndim != 1:
        raise InputError(
            f"{name} has the shape {list(column.shape)}", where=where, fix="give one for a sample"
        )
    _check_range(name, column, where)
    return column


def _numbers(name: str, values: NDArray[Any], where: str) -> Array:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} holds no numbers", where=where, fix=_NEEDED)
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise InputError(
            f"row {row + 1:,}: {name} is not a finite number",
            where=where,
            fix="remove the row, or record it again",
        )
    return numbers


def _check_range(name: str, values: Array, where: str) -> None:
    is_wrong = (values < 0) | (values > 1)
    if is_wrong.any():
        at = tuple(np.argwhere(is_wrong)[0])
        raise InputError(
            f"row {at[0] + 1:,}: {name} is {values[at]:.6g}, outside 0 to 1",
            where=where,
            fix="give probabilities; name the array logits where no softmax was taken",
        )


def _check_sums(values: Array, where: str) -> None:
    sums = values.sum(axis=1)
    is_wrong = np.abs(sums - 1) > _SUM_SLACK
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise InputError(
            f"row {row + 1:,}: the probabilities add up to {sums[row]:.4g}",
            where=where,
            fix="give probabilities; name the array logits where no softmax was taken",
        )


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


def _check_classes(name: str, values: NDArray[Any], where: str) -> None:
    is_missing = _is_missing(values)
    if is_missing.any():
        raise InputError(
            f"row {int(np.argmax(is_missing)) + 1:,}: {name} is no class",
            where=where,
            fix="give the class of every sample, a number from 0 on or a text",
        )


def _same(
    first: NDArray[Any],
    second: NDArray[Any],
    where: str,
    is_open: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Where two arrays of classes are equal; both of numbers, or both of texts."""
    for values in (first, second):
        if values.ndim != 1 or values.dtype.kind not in "fiubUT":
            raise InputError("classes are neither numbers nor texts", where=where, fix=_NEEDED)
    if (first.dtype.kind in "UT") != (second.dtype.kind in "UT"):
        if is_open is None or not is_open.all():
            raise InputError(
                "one column of classes holds numbers, another texts",
                where=where,
                fix="call the classes alike in every column",
            )
        return np.zeros(len(first), dtype=bool)
    return np.asarray(first == second)
