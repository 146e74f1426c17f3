"""What the time and the power of a network are made of, as functions of a mode's clocks.

**Time.** A layer takes max(w / compute rate, q / memory rate), the roofline, or a little more where
the two do not overlap perfectly: the p-norm of both. A network is a sum of layers, so its time is a
sum of such terms with weights that are not negative: one for each place that a layer's ridge can
have between the clocks, one for what follows the engine's clock, with its SMs or without, one for
main memory, one for the CPU's clock (launches), and a constant.

**Power.** A constant part; switching, a·f·V², with the voltage V affine in f above the lowest that
the chip allows, so that f, and f³ with it, span it; and the energy of a network's work times the
rate at which it is done.

**Forms.** A network's time or power has one of a few forms: a single term (1 / clock of the engine
with its SMs, the same in every mode, the same energy in every mode), a line of the clocks, or all
terms. Each has odds before anything is measured; what was measured decides between them by its
probability, so the simplest form that explains it is taken, and none is worse than the plain rule
that it contains (docs/understand/scaling.md).

All columns are relative to the highest settings of the board, so that every term is 1 in its
highest mode, whichever modes were measured. A setting that is the same in all of them stays in its
term: SMs and clock are one product, and a mode with fewer SMs is slower whether or not SMs were
varied.

**Prior.** Each weight is ``mean`` ± ``deviation`` before anything is measured. With few
measurements the prior decides what these leave open (docs/understand/scaling.md says how it was
chosen).

**Bounds.** Measurements alone bound what a network can do in another mode: whatever the weights,
from one mode to another a sum grows by no more than the part that grows most, and by no less than
the part that grows least. That holds of time, power and energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.core.hardware import SETTINGS

Array = NDArray[np.float64]

RATE = "rate"  # networks per second, relative; a column of power terms alone
N_RIDGES = 9  # places for a layer's ridge
_LEAST_SPAN = 2.0  # ridges lie at least so far to either side of the measured modes
_SAME = 1e-3  # settings closer than that are one: clocks are read back to a few kHz
_LEVEL = 0.1  # deviation of all weights together, which the level of the fit takes up


@dataclass(frozen=True)
class Product:
    """``scale`` times settings to a power, each relative to its reference."""

    scale: float
    powers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TablePlace:
    """Place ``index`` of a table of values of ``setting``, relative and rising.

    A term there counts fully, and falls to 0 at the places beside it, linear in the logarithm.
    """

    setting: str
    places: tuple[float, ...]
    index: int


@dataclass(frozen=True)
class Term:
    """The p-norm of products, 1 at the reference; its weight is ``mean`` ± ``deviation`` before
    anything is measured. ``place``: it is one of a table's terms."""

    name: str
    parts: tuple[Product, ...]
    mean: float
    deviation: float
    p: float = math.inf
    place: TablePlace | None = None


@dataclass(frozen=True)
class TermBasis:
    """Terms, and the reference of each setting that they use: the board's highest, in its unit."""

    terms: tuple[Term, ...]
    reference: Mapping[str, float]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that must be known of a mode."""
        used = {name for term in self.terms for part in term.parts for name, _ in part.powers}
        return tuple(name for name in SETTINGS if name in used)

    @property
    def is_same(self) -> bool:
        """Whether no setting changes it."""
        parts = (part for term in self.terms for part in term.parts)
        return all(exponent == 0 for part in parts for _, exponent in part.powers)

    @cached_property
    def mean(self) -> Array:
        """The weights before anything is measured; together 1."""
        found = np.array([term.mean for term in self.terms])
        return np.asarray(found / found.sum(), dtype=np.float64)

    @cached_property
    def precision(self) -> Array:
        """Of the weights before anything is measured: the inverse of their covariance."""
        deviations = np.array([term.deviation for term in self.terms])
        covariance = np.diag(deviations**2) + _LEVEL**2 * np.outer(self.mean, self.mean)
        return np.asarray(np.linalg.inv(covariance), dtype=np.float64)

    @cached_property
    def whitening(self) -> Array:
        """What makes errors of the weights, before anything is measured, alike."""
        return np.asarray(np.linalg.cholesky(self.precision).T, dtype=np.float64)


def setting_values(modes: pl.DataFrame) -> dict[str, Array]:
    """Each setting of ``modes`` (MODE_SCHEMA) as an array; NaN where it is no positive number."""
    known = modes.select(usable(name).cast(pl.Float64).fill_null(math.nan) for name in SETTINGS)
    return {name: known.get_column(name).to_numpy() for name in SETTINGS}


def usable(name: str) -> pl.Expr:
    """The setting ``name``, null where it is no positive number (Polars takes NaN for large)."""
    column = pl.col(name)
    return pl.when(column.cast(pl.Float64).is_finite() & (column > 0)).then(column).alias(name)


def known_settings(values: Mapping[str, Array]) -> tuple[str, ...]:
    """The settings that all modes have."""
    return tuple(name for name in SETTINGS if values[name].size and bool((values[name] > 0).all()))


def varying(values: Mapping[str, Array]) -> tuple[str, ...]:
    """Those of them that differ between modes."""
    return tuple(
        name
        for name in known_settings(values)
        if float(values[name].max()) > float(values[name].min()) * (1 + _SAME)
    )


def is_outside(measured: Mapping[str, Array], values: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Whether a mode has a setting below the least or above the most of the measured modes.

    A setting that no measured mode names is outside wherever it is set.
    """
    found = np.zeros(next(iter(values.values())).size, dtype=bool)
    for name in SETTINGS:
        seen = measured[name][~np.isnan(measured[name])]
        low, high = (seen.min(), seen.max()) if seen.size else (math.inf, -math.inf)
        with np.errstate(invalid="ignore"):
            found |= (values[name] < low * (1 - _SAME)) | (values[name] > high * (1 + _SAME))
    return found


Forms: TypeAlias = "list[tuple[TermBasis, float]]"  # with their odds before anything is measured

# Means and deviations of weights, and odds of forms: those that predict recorded sweeps best. The
# share that goes with the SMs is _FULL_SMS / (_FULL_SMS + SMs of the board): kernels of one
# inference rarely fill all of many SMs.
_CONSTANT, _MEMORY, _ENGINE, _LAUNCH, _RIDGES = (
    (0.005, 0.6), (0.04, 0.1), (0.78, 0.3), (0.055, 0.17), (0.12, 0.8),
)  # fmt: skip
_HOST_RIDGES, _HOST_PLACES = (0.05, 0.52), (0.5, 1.0, 2.0)
_ENGINE_ALONE = (0.5, 0.8)  # where one setting of the engine is known
_FULL_SMS = 1.2
# Of a CPU with its cores: its threads share the work, and its clock alone says little.
_CORES, _ONE_CORE = (0.95, 0.2), (0.02, 0.2)
_LINE_CONSTANT, _LINE_ENGINE, _LINE_MEMORY = (0.03, 0.5), (0.7, 1.0), (0.1, 0.35)
_TABLE_CONSTANT, _TABLE_ENGINE, _TABLE_MEMORY = (0.05, 0.3), (0.8, 1.0), (0.2, 1.0)
OVERLAPS = (math.inf, 4.0)  # of a layer's arithmetic and traffic: all of it, most of it
_ALL_ODDS, _LINE_ODDS, _TABLE_ODDS, _SAME_ODDS = (3.0, 1.0), 2.8, 0.5, 0.05
_COUNTED_ODDS, _CORES_ODDS = 2.0, 4.0
_WIDE_SMS = (
    8.0  # a board of more SMs is rarely filled: odds of clock · SMs fall with their 4th power
)
FEWEST_SAME = 3  # fewer equal modes may be bound by what they share


def _engine(known: tuple[str, ...]) -> tuple[str, str]:
    """The clock that a network's work follows, and the count of what it clocks."""
    return ("gpu_hz", "n_sms") if "gpu_hz" in known or "n_sms" in known else ("cpu_hz", "n_cpus")


@dataclass(frozen=True, eq=False)
class _Settings:
    """What is known of the measured modes (``measured``), and of the board that they are of."""

    measured: Mapping[str, Array]
    known: tuple[str, ...]
    reference: Mapping[str, float]
    clock: str
    counted: tuple[tuple[str, float], ...]  # 1 / clock and 1 / count, those that are known
    memory: tuple[tuple[str, float], ...]
    has_counts: bool  # the count differs between modes of the board

    @property
    def of_cores(self) -> bool:
        """Whether the network runs on a CPU whose cores are known."""
        return self.clock == "cpu_hz" and len(self.counted) == 2

    @property
    def n_modes(self) -> int:
        """How many were measured."""
        return int(self.measured["gpu_hz"].size)


def _settings(measured: Mapping[str, Array], board: Mapping[str, Array]) -> _Settings:
    known = known_settings(measured)
    every = {name: np.concatenate([measured[name], board[name]]) for name in known}
    clock, count = _engine(known)
    return _Settings(
        measured=measured,
        known=known,
        reference={name: float(np.nanmax(values)) for name, values in every.items()},
        clock=clock,
        counted=tuple((name, -1.0) for name in (clock, count) if name in known),
        memory=(("memory_hz", -1.0),) if "memory_hz" in known else (),
        has_counts=count in known
        and float(np.nanmax(every[count])) > float(np.nanmin(every[count])) * (1 + _SAME),
    )


def time_forms(measured: Mapping[str, Array], board: Mapping[str, Array]) -> Forms:
    """The forms of a network's time from modes with the settings ``measured``.

    ``board``: the settings of all modes of their board, whether a network ran in them or not.
    """
    given = _settings(measured, board)
    forms = [(_all_terms(given, p), odds) for p, odds in zip(OVERLAPS, _ALL_ODDS, strict=True)]
    if given.counted:
        forms.append((_line_terms(given), _LINE_ODDS))
    if given.counted and given.memory:
        table = _table_terms(given)
        forms += [(table, _TABLE_ODDS)] if table else []
    if len(given.counted) == 2 and given.has_counts:
        n_sms = given.reference[given.counted[1][0]]
        odds = _CORES_ODDS if given.of_cores else _COUNTED_ODDS * min(1.0, _WIDE_SMS / n_sms) ** 4
        forms.append(((_single("engine", given.counted, (1.0, 0.06)),), odds))
    if given.n_modes >= FEWEST_SAME and given.known:
        # Exponents of 0, so that a mode that lacks a setting of the measured ones stays unknown.
        powers = tuple((name, 0.0) for name in given.known if name != "power_limit_w")
        forms.append(((_single("constant", powers, (1.0, 0.02)),), _SAME_ODDS))
    return [(TermBasis(terms, given.reference), odds) for terms, odds in forms]


def _all_terms(given: _Settings, p: float) -> tuple[Term, ...]:
    """One for each clock, and ridges; ``p``: how layers overlap."""
    counted, memory = given.counted, given.memory
    terms = [_single("constant", (), _CONSTANT)]
    if memory:
        terms.append(_single("memory", memory, _MEMORY))
    together, clock_alone = _ENGINE_ALONE, (0.0, 0.0)
    if given.of_cores:
        together, clock_alone = _CORES, _ONE_CORE
    elif len(counted) == 2:
        share = _FULL_SMS / (_FULL_SMS + given.reference[counted[1][0]])
        mean, deviation = _ENGINE
        together, clock_alone = (mean * share, deviation), (mean * (1 - share), deviation)
    if counted:
        terms.append(_single("engine", counted, together))
        terms += _memory_ridges(given, p)
    if len(counted) == 2:  # without the count: the GPU's port to memory, a CPU's single thread
        terms.append(_single("engine clock", counted[:1], clock_alone))
    if given.clock != "cpu_hz" and "cpu_hz" in given.known:
        host = (("cpu_hz", -1.0),)
        terms.append(_single("launch", host, _LAUNCH))
        # Launches run ahead of the kernels: a group of layers waits for the slower of both.
        if counted:
            terms += _ridges("launch ridge", (counted[:1], host), _HOST_PLACES, _HOST_RIDGES, p)
    return tuple(terms)


def _line_terms(given: _Settings) -> tuple[Term, ...]:
    """a + b / clock + c / memory clock, of a wide prior."""
    engine = given.counted if given.of_cores else given.counted[:1]
    terms = [_single("constant", (), _LINE_CONSTANT), _single("engine", engine, _LINE_ENGINE)]
    return (*terms, *(_single("memory", given.memory, _LINE_MEMORY) for _ in given.memory))


def _table_terms(given: _Settings) -> tuple[Term, ...]:
    """The line with a weight for each measured memory clock; empty with too few modes to tell.

    On real boards the bandwidth need not follow the memory's clock.
    """
    relative = given.measured["memory_hz"] / given.reference["memory_hz"]
    places = tuple(np.unique(relative.round(3)).tolist())
    if len(places) < 2 or given.n_modes < len(places) + 2:
        return ()
    engine = given.counted if given.of_cores else given.counted[:1]
    part = (Product(1.0, given.memory),)
    terms = [_single("constant", (), _TABLE_CONSTANT), _single("engine", engine, _TABLE_ENGINE)]
    for at in range(len(places)):
        place = TablePlace("memory_hz", places, at)
        terms.append(Term("memory", part, *_TABLE_MEMORY, place=place))
    return tuple(terms)


def _memory_ridges(given: _Settings, p: float) -> list[Term]:
    """A term for each place of a layer's ridge. Without a memory clock its time is a constant."""
    relative = _relative(given.measured, given.reference)
    sides = given.counted, given.memory
    ratio = _product(Product(1.0, sides[0]), relative) / _product(Product(1.0, sides[1]), relative)
    low, high = min(float(ratio.min()), 1 / _LEAST_SPAN), max(float(ratio.max()), _LEAST_SPAN)
    return _ridges("ridge", sides, np.geomspace(low, high, N_RIDGES).tolist(), _RIDGES, p)


def _ridges(
    name: str,
    sides: tuple[tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]],
    places: Sequence[float],
    prior: tuple[float, float],
    p: float,
) -> list[Term]:
    """A term for each of ``places``, by how many times the first side is faster there."""
    mean, deviation = prior[0] / len(places), prior[1] / math.sqrt(len(places))
    terms = []
    for place in places:
        size = max(1.0, place) if math.isinf(p) else (1 + place**p) ** (1 / p)
        parts = (Product(1 / size, sides[0]), Product(place / size, sides[1]))
        terms.append(Term(name, parts, mean, deviation, p))
    return terms


def power_forms(measured: Mapping[str, Array], board: Mapping[str, Array]) -> Forms:
    """The forms of a network's power, as ``time_forms``."""
    given = _settings(measured, board)
    forms = [(_all_power_terms(given), _ALL_POWER_ODDS)]
    # Where the energy of an inference is the same, the power goes with how often it runs.
    forms.append(((_single("work", ((RATE, 1.0),), (1.0, 0.08)),), _SAME_ENERGY_ODDS))
    if given.clock in given.known:
        terms = [
            _single("constant", (), _LINE_POWER),
            _single("switching", ((given.clock, 1.0),), _LINE_SWITCHING),
        ]
        if given.memory:
            terms.append(_single("memory", (("memory_hz", 1.0),), _LINE_MEMORY_POWER))
        forms.append((tuple(terms), _LINE_POWER_ODDS))
    return [(TermBasis(terms, given.reference), odds) for terms, odds in forms]


_ALL_POWER_ODDS, _SAME_ENERGY_ODDS, _LINE_POWER_ODDS = 7.7, 0.5, 0.42
_LINE_POWER, _LINE_SWITCHING, _LINE_MEMORY_POWER = (0.05, 0.36), (0.9, 0.3), (0.03, 1.0)


def _all_power_terms(given: _Settings) -> tuple[Term, ...]:
    clock, count = _engine(given.known)
    counted = ((count, 1.0),) if count in given.known else ()
    terms = [_single("constant", (), (0.11, 0.27)), _single("work", ((RATE, 1.0),), (0.36, 0.2))]
    if clock in given.known:
        for exponent, prior in ((1.0, (0.22, 0.54)), (3.0, (0.085, 0.5))):
            powers = (*counted, (clock, exponent))
            terms.append(_single(f"switching, clock^{exponent:g}", powers, prior))
        terms.append(_single("work, clock²", ((RATE, 1.0), (clock, 2.0)), (0.02, 0.3)))
    elif counted:
        terms.append(_single("switching", counted, (0.15, 0.28)))
    if given.memory:
        terms.append(_single("memory", (("memory_hz", 1.0),), (0.01, 0.55)))
    if clock != "cpu_hz" and "cpu_hz" in given.known:
        cores = (("n_cpus", 1.0),) if "n_cpus" in given.known else ()
        terms.append(_single("cores", (*cores, ("cpu_hz", 1.0)), (0.002, 0.04)))
    return tuple(terms)


def evaluate(basis: TermBasis, values: Mapping[str, Array], rate: Array | None = None) -> Array:
    """Modes × terms. A mode that lacks a setting of a term has NaN there.

    ``rate``: how often the network runs in a second, relative, for terms of power.
    """
    relative = _relative(values, basis.reference)
    n_modes = next(iter(values.values())).size
    if rate is not None:
        relative[RATE] = rate
    by_term = np.empty((len(basis.terms), n_modes))  # the modes of a term are contiguous
    for row, term in zip(by_term, basis.terms, strict=True):
        row[:] = _term(term, relative)
    found: Array = by_term.T
    return found


def rate_share(basis: TermBasis, terms: Array, weights: Array) -> Array:
    """Which share of a power goes with the rate of work, by terms (modes × terms) and weights."""
    is_work = np.array(
        [
            any(name == RATE for part in term.parts for name, _ in part.powers)
            for term in basis.terms
        ]
    )
    found: Array = (terms * weights)[:, is_work].sum(axis=1) / (terms @ weights)
    return found


def _single(name: str, powers: tuple[tuple[str, float], ...], prior: tuple[float, float]) -> Term:
    return Term(name, (Product(1.0, powers),), *prior)


def _relative(values: Mapping[str, Array], reference: Mapping[str, float]) -> dict[str, Array]:
    return {name: values[name] / mean for name, mean in reference.items()}


def _term(term: Term, relative: Mapping[str, Array]) -> Array:
    if term.place is not None:
        of = term.place
        heights = np.zeros(len(of.places))
        heights[of.index] = 1.0
        share = np.interp(np.log(relative[of.setting]), np.log(of.places), heights)
        return np.asarray(share * _product(term.parts[0], relative), dtype=np.float64)
    parts = [_product(part, relative) for part in term.parts]
    if len(parts) == 1:
        return parts[0]
    if math.isinf(term.p):
        return reduce(np.maximum, parts)
    return np.asarray(sum(part**term.p for part in parts) ** (1 / term.p), dtype=np.float64)


def _product(part: Product, relative: Mapping[str, Array]) -> Array:
    found = np.array(part.scale)
    for name, exponent in part.powers:
        power = relative[name] ** exponent
        # NaN^0 is 1, but what is not known stays unknown.
        found = found * (power if exponent else np.where(np.isnan(relative[name]), np.nan, power))
    return np.asarray(found, dtype=np.float64)
