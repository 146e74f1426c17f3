"""How often networks are right, from the classes that they predict: shares with their intervals.

- A share of n samples has the 95 % interval of E. B. Wilson (Probable inference, the law of
  succession, and statistical inference, JASA 22(158), 1927): (p + z²/2n ± z √(p(1 - p)/n + z²/4n²))
  / (1 + z²/n), z = 1.95996. It lies within 0 to 1, also where none or all are right.
- The drop is the share of samples that fp32 has right and this precision wrong, less the share of
  the reverse: both have the same samples, so it is known better than either share. With b and c
  the numbers of both, its estimate and standard error are those of A. Agresti and Y. Min (Simple
  improved confidence intervals for comparing matched proportions, Statistics in Medicine 24(5),
  2005): half a sample is added to each of the four cells, b' = b + ½, c' = c + ½, n' = n + 2,
  d' = (b' - c') / n', s = √(b' + c' - (b' - c')² / n') / n', and the interval d' ± z s.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mansard.analytics.data.names import (
    device_labels,
    display_name,
    display_text,
    engine_words,
    network_key,
    network_names,
)
from mansard.analytics.data.quantities import NBSP, UNKNOWN
from mansard.core.records import Accuracy, Record, Source

if TYPE_CHECKING:  # shares are the core's; frames need the extra
    import polars as pl

    from mansard.analytics.data.dataset import Dataset

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.975)
REFERENCE = "fp32"  # what other precisions are compared with
_TOP = 5
_Flags = npt.NDArray[np.bool_]


class Share(Record, frozen=True, kw_only=True):
    """A share of samples, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Drop(Record, frozen=True, kw_only=True):
    """By how much fewer samples are right than in fp32, as a share of all.

    ``value`` is what was counted; ``middle`` and ``deviation`` are of the distribution that
    ``low`` and ``high`` span 95 % of.
    """

    value: float
    low: float
    high: float
    middle: float
    deviation: float

    def probability_at_most(self, limit: float) -> float:
        """How likely the drop is no more than ``limit``."""
        return _NORMAL.cdf((limit - self.middle) / self.deviation)


class NetworkAccuracy(Record, frozen=True, kw_only=True):
    """How often one network in one precision is right, on one device and engine.

    ``agreement``: the share of samples that it predicts the same class of as in fp32;
    ``reference``: the engine and provider that ran it in fp32.
    """

    run_id: str
    started_utc: str
    device: str
    source: Source
    network: str
    weights_hash: str
    engine: str
    provider: str
    precision: str
    calibration: str  # what the ranges of int8 come from; empty: nothing was calibrated
    dataset: str
    dataset_hash: str  # of the samples as they are stored, their labels and preprocessing
    preprocessing: str
    n_samples: int
    n_classes: int | None
    top1: Share | None
    top5: Share | None
    agreement: Share | None
    drop: Drop | None
    reference: str | None
    n_not_finite: int | None  # samples with a score that is NaN: wrong, and none of the classes
    remark: str  # why it could not be run; empty: it ran

    @property
    def engine_words(self) -> str:
        """What ran it, as tables and observations call it: ``onnxruntime cpu``."""
        return engine_words(self.engine, self.provider)


def wilson(n_right: int, n_samples: int) -> Share:
    """The share ``n_right`` of ``n_samples``, at least one, and its interval."""
    share = n_right / n_samples
    low, high = (float(end) for end in wilson_ends(np.float64(share), n_samples, _Z95))
    # At 0 and 1 the end is the value itself but for rounding.
    return Share(value=share, low=min(low, share), high=max(high, share))


def wilson_ends(share: Any, n_samples: int, z: float) -> tuple[Any, Any]:
    """The ends of Wilson's interval of a share, or an array of them, ``z`` standard errors apart.

    Source: E. B. Wilson, Journal of the American Statistical Association 22, 1927.
    """
    square = z * z / n_samples
    middle = share + square / 2
    half = z * np.sqrt(share * (1 - share) / n_samples + square / (4 * n_samples))
    low, high = ((middle + sign * half) / (1 + square) for sign in (-1, 1))
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def paired_drop(is_right: _Flags, is_right_in_fp32: _Flags) -> Drop:
    """How many fewer of the same samples, at least one, are right."""
    n_lost = int(np.sum(is_right_in_fp32 & ~is_right))
    n_won = int(np.sum(is_right & ~is_right_in_fp32))
    n_samples = len(is_right)
    lost, won, n_all = n_lost + 0.5, n_won + 0.5, n_samples + 2
    middle = (lost - won) / n_all
    deviation = math.sqrt(lost + won - (lost - won) ** 2 / n_all) / n_all
    return Drop(
        value=(n_lost - n_won) / n_samples,
        low=middle - _Z95 * deviation,
        high=middle + _Z95 * deviation,
        middle=middle,
        deviation=deviation,
    )


@dataclass(frozen=True)
class _KnownAccuracy:
    """A row, the device that it is of, and how its network is called."""

    device: str
    network: str
    row: Accuracy


def network_accuracies(
    dataset: Dataset, run_ids: Collection[str] = ()
) -> tuple[NetworkAccuracy, ...]:
    """The newest row of each network, device, engine, precision, calibration and data set.

    Rows of ``run_ids`` stand before newer ones of other runs.
    """
    labels, names = device_labels(dataset.all_manifests), network_names(dataset)
    newest: dict[tuple[str, ...], _KnownAccuracy] = {}
    for row in sorted(
        dataset.accuracies,
        key=lambda accuracy: (accuracy.run_id in run_ids, accuracy.started_utc, accuracy.trial_id),
    ):
        name = names.get(network_key(row.model, row.model_hash), display_name(row.model))
        entry = _KnownAccuracy(labels[row.run_id], name, row)
        how = (row.engine, row.provider, row.precision, row.calibration)
        newest[_same(entry) + how] = entry
    rows = sorted(newest.items())
    return tuple(_accuracy(entry, _reference(entry, newest.values())) for _, entry in rows)


def _same(known: _KnownAccuracy) -> tuple[str, ...]:
    """What two rows have in common that can be compared sample by sample."""
    row = known.row
    return known.device, row.model, row.weights_hash, row.dataset, row.dataset_hash


def _reference(known: _KnownAccuracy, rows: Iterable[_KnownAccuracy]) -> Accuracy | None:
    """The same network in fp32: on the same engine and provider, else on another; or None."""
    mine = known.row
    alike = [
        other.row
        for other in rows
        if _same(other) == _same(known)
        and other.row.precision == REFERENCE
        and other.row.failure is None
    ]
    alike.sort(key=lambda row: (row.engine, row.provider) != (mine.engine, mine.provider))
    return alike[0] if alike else None


def _accuracy(known: _KnownAccuracy, reference: Accuracy | None) -> NetworkAccuracy:
    row, n_samples = known.row, known.row.n_samples
    why = f"it could not be run: {row.failure}" if row.failure is not None else ""
    no_labels = why or row.unknown.get("ranks", "")
    no_reference = why or "it was not run in fp32 with these samples"
    if reference is row:
        reference, no_reference = None, "it is what other precisions are compared with"
    top1 = top5 = agreement = drop = None
    if row.ranks is not None:
        ranks = np.array(row.ranks)
        top1 = wilson(int((ranks == 0).sum()), n_samples)
        if (row.n_classes or 0) > _TOP:
            top5 = wilson(int((ranks < _TOP).sum()), n_samples)
    if reference is not None and row.failure is None:
        is_same = np.array(row.predicted) == np.array(reference.predicted)
        agreement = wilson(int(is_same.sum()), n_samples)
        if row.ranks is not None and reference.ranks is not None:
            drop = paired_drop(np.array(row.ranks) == 0, np.array(reference.ranks) == 0)
    reasons = {
        "n_classes": why,
        "n_not_finite": why,
        "top1": no_labels,
        "top5": no_labels or f"it has no more than {_TOP} classes",
        "agreement": no_reference,
        "drop": no_labels or no_reference,
        "reference": no_reference,
    }
    values = {
        "n_classes": row.n_classes,
        "n_not_finite": None if why else sum(c == row.n_classes for c in row.predicted),
        "top1": top1,
        "top5": top5,
        "agreement": agreement,
        "drop": drop,
        "reference": None
        if reference is None or row.failure is not None
        else engine_words(reference.engine, reference.provider),
    }
    return NetworkAccuracy(
        run_id=row.run_id,
        started_utc=row.started_utc,
        device=known.device,
        source=row.source,
        network=known.network,
        weights_hash=row.weights_hash,
        engine=row.engine,
        provider=row.provider,
        precision=row.precision,
        calibration=display_text(row.calibration) if row.calibration else "",
        dataset=display_name(row.dataset),
        dataset_hash=row.dataset_hash,
        preprocessing=display_text(row.preprocessing),
        n_samples=n_samples,
        remark=display_text(row.failure) if row.failure is not None else "",
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,  # type: ignore[arg-type]  # each is of its field
    )


def by_precision(
    accuracies: Sequence[NetworkAccuracy],
    device: str,
    network: str,
    observations: pl.DataFrame | None = None,
) -> Mapping[str, NetworkAccuracy]:
    """What is known of each precision of one network on one device, all of the same samples.

    Of the newest weights. Of several engines the one that ``observations`` (OBSERVATION_SCHEMA) are
    of; then the engine and samples that most precisions were measured with, of equal ones the
    newest.
    """
    engines: list[str] = []
    if observations is not None:
        engines = observations.filter(device=device, network=network)["engine"].unique().to_list()
    of_network = [
        accuracy
        for accuracy in sorted(accuracies, key=lambda accuracy: accuracy.started_utc)
        if (accuracy.device, accuracy.network, accuracy.remark) == (device, network, "")
    ]
    groups: dict[tuple[str, str, str], dict[str, NetworkAccuracy]] = {}
    for accuracy in of_network:
        if accuracy.weights_hash == of_network[-1].weights_hash:
            key = (accuracy.engine, accuracy.provider, accuracy.dataset_hash)
            groups.setdefault(key, {})[accuracy.precision] = accuracy

    def rank(group: Mapping[str, NetworkAccuracy]) -> tuple[bool, int, str]:
        newest = max(group.values(), key=lambda accuracy: accuracy.started_utc)
        words = f"{newest.engine_words} "
        is_timed = any(f"{name} ".startswith(words) for name in engines)
        return is_timed, len(group), newest.started_utc

    return max(groups.values(), key=rank, default={})


def share_text(share: Share | Drop | None) -> str:
    """``76.1 (75.7 to 76.5) %``; a drop is below 0 where fp32 is right less often."""
    if share is None:
        return UNKNOWN
    value, low, high = (
        f"{round(100 * part, 1) + 0.0:.1f}".replace("-", "−")  # no -0.0
        for part in (share.value, share.low, share.high)
    )
    return f"{value} ({low} to {high}){NBSP}%"
