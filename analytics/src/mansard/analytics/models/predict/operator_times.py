"""What an operator takes by its shape, from a designed set that was timed on the device.

T = (a · W / P + b · Q / B + c) / u,  u = exp(-g(shape))

W / P and Q / B: seconds at the roofs of work and traffic; a, b and c: what all operators of a kind
have in common, with c for its launch; g: a Gaussian process on the logarithm of the shape, which
says how well kernels of that shape use the device. Operators of one fit ran on one device and one
engine; modes and precisions differ by their roofs. docs/understand/calibration.md has how far off
it is.

Matrix products and convolutions are products of an M × K and a K × N matrix. What tells their
kernels apart beside these is how often a convolution reads an input (positions of its window over
those of its stride: 9 for 3 × 3, 2.25 with a stride of 2; libraries have kernels of their own where
it is large). All of them follow from counts (``operator_shapes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.predict.gaussian_process import (
    Array,
    GaussianProcess,
    Prior,
    fit_process,
)
from mansard.analytics.models.predict.groups import OpClass
from mansard.core.records import Record, Source

LEAST_OPERATORS = 8  # of a family, for a process of it
_Z_95 = 1.96
# Expected of a, b and c: kernels reach two thirds of the roofs, within a factor of e.
_EXPECTED = (1.5, 1.2)
_DEVIATIONS = (1.0, 1.0, 1.5)  # of their logarithms
_MISFIT = 0.3  # of ln T about the line
_LAYERS_OF_SUM, _N_SUMS = 40, 200  # of the sums that the deviation of a sum is judged by
_N_ROUNDS = 60
_SETTLED = 1e-4
# Beside the shape: kinds differ within a family; their columns are 0 or 1, so they are about a
# length apart.
_KIND_PRIOR = Prior(length=2.0)


class TimedOperator(Record, frozen=True, kw_only=True):
    """One operator as an engine ran it, or one that is to be predicted (``measured_s`` None).

    An M × K and a K × N matrix, ``n_products`` times: of a convolution M is the positions of all
    outputs, N the filters, K what is summed up for each output. ``window``: how often it reads an
    input element. All five are 1 for operators that are no products.
    """

    kind: OpClass
    m: float = 1.0
    n: float = 1.0
    k: float = 1.0
    n_products: float = 1.0
    window: float = 1.0
    precision: str
    work_flop: float
    traffic_bytes: float
    work_s: float  # at the roof
    traffic_s: float
    measured_s: float | None
    device: str = ""
    mode: str = ""
    engine: str = ""
    source: Source = "measured"


def at_roofs(
    operators: Iterable[TimedOperator], flop_per_s: float, bytes_per_s: float
) -> list[TimedOperator]:
    """``operators`` with their times at these roofs."""
    return [
        replace(row, work_s=row.work_flop / flop_per_s, traffic_s=row.traffic_bytes / bytes_per_s)
        for row in operators
    ]


@dataclass(frozen=True, eq=False)
class OperatorSeconds:
    """Seconds of each operator, and ``deviation``: of ln T, with its noise.

    ``low_s`` and ``high_s``: 95 %. ``total_s`` with its ends: of the sum of all.
    """

    seconds: Array
    deviation: Array
    low_s: Array
    high_s: Array
    total_s: float
    total_low_s: float
    total_high_s: float


@dataclass(frozen=True, eq=False)
class _Family:
    """Kinds that share a process; ``line``: ln of a, b and c; ``stretch``: of its deviations."""

    kinds: tuple[str, ...]
    line: Array
    process: GaussianProcess
    stretch: float
    least: float  # the smallest share of its roof that one took; at most 1


@dataclass(frozen=True, eq=False)
class OperatorTimes:
    """Processes of one device and engine; ``families``: by ``family_of``."""

    families: Mapping[str, _Family]
    others: _Family  # of work and traffic alone, for families without one
    n_operators: int
    stretch_of_sums: float  # of the deviation of a sum

    @property
    def launch_s(self) -> float:
        """What an operator takes beside its work and traffic, in the line of all of them."""
        return float(np.exp(self.others.line[2]))

    def factors(self, operators: Sequence[TimedOperator]) -> tuple[Array, Array]:
        """What the work and the traffic of each take, in times of their times at the roofs."""
        works, moves = np.empty(len(operators)), np.empty(len(operators))
        for name, rows in _by_family(operators).items():
            family = self.families.get(name, self.others)
            some = [operators[at] for at in rows]
            features = _features(some, name if name in self.families else _OTHER, family.kinds)
            off = np.exp(family.process.mean(features))
            parts = _parts(some)[:, :2]
            factors = np.exp(family.line[:2]) * off[:, None]
            least_s = family.least * parts.max(axis=1)
            said_s = np.maximum((parts * factors).sum(axis=1), 1e-300)
            works[rows], moves[rows] = (factors * np.maximum(least_s / said_s, 1.0)[:, None]).T
        return works, moves

    def predict(self, operators: Sequence[TimedOperator]) -> OperatorSeconds:
        """What ``operators`` take, each and together; their times at the roofs are of this mode."""
        log_s, variance = np.empty(len(operators)), np.empty(len(operators))
        noise, stretch = np.empty(len(operators)), np.empty(len(operators))
        shared = np.zeros((len(operators), len(operators)))
        for name, rows in _by_family(operators).items():
            family = self.families.get(name, self.others)
            some = [operators[at] for at in rows]
            features = _features(some, name if name in self.families else _OTHER, family.kinds)
            log_s[rows] = np.log(_on_line(family.line, some)) + family.process.mean(features)
            roof_s = np.array([max(row.work_s, row.traffic_s) for row in some])
            with np.errstate(divide="ignore"):
                log_s[rows] = np.maximum(log_s[rows], np.log(family.least * roof_s))
            together = family.process.covariance(features)
            shared[np.ix_(rows, rows)] = together * family.stretch**2
            variance[rows] = np.maximum(np.diag(together), 0.0)
            noise[rows], stretch[rows] = family.process.noise, family.stretch
        deviation = stretch * np.sqrt(variance + noise**2)
        seconds = np.exp(log_s)
        total_s = float(seconds.sum())
        spread = seconds @ shared @ seconds + ((seconds * noise * stretch) ** 2).sum()
        deviation_of_sum = np.sqrt(max(float(spread), 0.0)) / total_s if total_s else 0.0
        half = _Z_95 * self.stretch_of_sums * deviation_of_sum
        return OperatorSeconds(
            seconds=seconds,
            deviation=deviation,
            low_s=seconds * np.exp(-_Z_95 * deviation),
            high_s=seconds * np.exp(_Z_95 * deviation),
            total_s=total_s,
            total_low_s=total_s * float(np.exp(-half)),
            total_high_s=total_s * float(np.exp(half)),
        )


_OTHER = "other"
_PRODUCTS = ("conv", "depthwise", "matmul")


def family_of(operator: TimedOperator) -> str:
    """The process that an operator belongs to: products by their kind, all else together.

    Several products of one shape, of inputs without weights, are "batched". Recurrent and attention
    operators are products inside. A product of unknown shape is one of all else.
    """
    kind = "matmul" if operator.kind in {"recurrent", "attention"} else operator.kind
    if kind not in _PRODUCTS or operator.m * operator.n * operator.k == 1:
        return _OTHER
    return "batched" if kind == "matmul" and operator.n_products != 1 else kind


def fit_operator_times(
    operators: Sequence[TimedOperator], like: OperatorTimes | None = None
) -> OperatorTimes | None:
    """The processes of timed ``operators``; None where fewer than LEAST_OPERATORS were timed.

    ``like``: processes of most of them, whose parameters are taken as they are: a tenth of the
    time.
    """
    timed = [row for row in operators if row.measured_s and (row.work_s or row.traffic_s)]
    if len(timed) < LEAST_OPERATORS:
        return None
    known = {} if like is None else like.families
    everything = _fit_family(timed, _OTHER, None, None if like is None else like.others)
    families = {
        name: _fit_family([timed[at] for at in rows], name, everything.line, known.get(name))
        for name, rows in _by_family(timed).items()
        if len(rows) >= LEAST_OPERATORS
    }
    left_out = [
        (family, [timed[at] for at in rows])
        for name, rows in _by_family(timed).items()
        for family in [families.get(name)]
        if family is not None
    ]
    return OperatorTimes(families, everything, len(timed), _stretch_of_sums(left_out))


def _stretch_of_sums(families: Sequence[tuple[_Family, Sequence[TimedOperator]]]) -> float:
    """How much further off sums of operators left out are than independent errors would be.

    Errors of long operators have much in common (a clock that falls under load), and a sum is
    mostly of these.
    """
    parts = []
    for family, rows in families:
        off, expected = family.process.left_out
        measured_s = np.array([row.measured_s for row in rows], dtype=np.float64)
        said_s = measured_s * np.exp(-off)
        parts.append(np.column_stack([measured_s, said_s, said_s * expected * family.stretch]))
    if not parts:
        return 1.0
    every = np.vstack(parts)
    random = np.random.default_rng(0)
    size = min(_LAYERS_OF_SUM, max(len(every) // 2, 1))
    picks = [random.choice(len(every), size, replace=False) for _ in range(_N_SUMS)]
    ratios = [
        abs(every[pick, 0].sum() - every[pick, 1].sum()) / np.linalg.norm(every[pick, 2])
        for pick in picks
    ]
    return max(1.0, float(np.quantile(ratios, 0.95)) / _Z_95)


def _by_family(operators: Sequence[TimedOperator]) -> dict[str, NDArray[np.intp]]:
    names = np.array([family_of(row) for row in operators])
    return {str(name): np.flatnonzero(names == name) for name in np.unique(names)}


def _fit_family(
    timed: Sequence[TimedOperator], name: str, common: Array | None, like: _Family | None
) -> _Family:
    """``common``: the line of all families, which theirs is expected to be near.

    ``like``: one whose parameters are taken.
    """
    kinds = tuple(sorted({row.kind for row in timed})) if like is None else like.kinds
    line = _fit_line(timed, common)
    measured_s = np.array([row.measured_s for row in timed], dtype=np.float64)
    features = _features(timed, name, kinds)
    values = np.log(measured_s / _on_line(line, timed))
    if like is None:
        process = fit_process(features, values, _KIND_PRIOR if name == _OTHER else Prior())
    else:
        process = GaussianProcess(features, values, like.process.parameters)
    off, expected = process.left_out
    # The share of 95 % is made to hold on the rows left out, whatever their distribution.
    widest = float(np.quantile(np.abs(off) / expected, 0.95, method="higher"))
    small = student_quantile(max(len(timed) - 1, 1)) / _Z_95
    roof_s = np.array([max(row.work_s, row.traffic_s) for row in timed])
    return _Family(
        kinds=kinds,
        line=line,
        process=process,
        stretch=max(1.0, widest / _Z_95) * small,
        least=min(1.0, float(np.min(measured_s / np.maximum(roof_s, 1e-300)))),
    )


def _features(operators: Sequence[TimedOperator], family: str, kinds: Sequence[str]) -> Array:
    """Natural logarithms; beside those of work and traffic a column for each of ``kinds``."""
    if family == "batched":
        # The harmonic mean of M and N says how often inputs are read; LayerScore tells no more.
        rows = [(o.n_products * o.m * o.n, o.k, o.m * o.n / (o.m + o.n)) for o in operators]
        return np.log(np.array(rows, dtype=np.float64))
    if family in _PRODUCTS:
        return np.log(np.array([(o.m, o.n, o.k, o.window) for o in operators], dtype=np.float64))
    sizes = np.log(np.array([(o.work_flop + 1, o.traffic_bytes + 1) for o in operators]))
    return np.hstack([sizes, [[float(o.kind == kind) for kind in kinds] for o in operators]])


def _parts(operators: Sequence[TimedOperator]) -> Array:
    return np.array([(row.work_s, row.traffic_s, 1.0) for row in operators], dtype=np.float64)


def _on_line(line: Array, operators: Sequence[TimedOperator]) -> Array:
    seconds: Array = _parts(operators) @ np.exp(line)
    return seconds


def _fit_line(timed: Sequence[TimedOperator], common: Array | None) -> Array:
    """ln of a, b and c: the most likely ones, with errors beyond _MISFIT counting linearly.

    Gauss's and Newton's steps on ln T. P. J. Huber, Robust Estimation of a Location Parameter,
    1964, for the errors.
    """
    log_s = np.log([row.measured_s for row in timed if row.measured_s])
    parts = _parts(timed)
    if common is None:
        common = np.log([*_EXPECTED, np.exp(log_s.min()) / 2])
    line: Array = common.copy()
    precision = 1 / np.square(_DEVIATIONS)
    for _ in range(_N_ROUNDS):
        terms = parts * np.exp(line)
        seconds = terms.sum(1)
        off = log_s - np.log(seconds)
        weight = 1 / (_MISFIT**2 * np.maximum(np.abs(off) / _MISFIT, 1.0))
        slope = terms / seconds[:, None]
        curvature = (slope * weight[:, None]).T @ slope + np.diag(precision)
        wanted = (slope * weight[:, None]).T @ off - precision * (line - common)
        step = np.clip(np.linalg.solve(curvature, wanted), -1.0, 1.0)
        line += step
        if np.abs(step).max() < _SETTLED:
            break
    return line
