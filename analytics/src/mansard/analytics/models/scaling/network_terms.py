"""What the time and the power of a network are made of, as functions of a mode's clocks.

**Time.** A layer takes max(w / compute rate, q / memory rate), the roofline, or a little more where
the two do not overlap perfectly: the p-norm of both. A network is a sum of layers, so its time is a
sum of such terms with weights that are not negative: one for each place that a layer's ridge can
have between the clocks, one for what follows the engine's clock, with its SMs or without, one for
main memory, one for the CPU's clock (launches), and a constant.

**Power.** A constant part; switching, a·f·V², with the voltage V affine in f above the lowest that
the chip allows, so that f, and f³ with it, span it; and the energy of a network's work times the
rate at which it is done.

All columns are relative to the geometric mean of the measured modes, so that every term is about 1
there. A setting that is the same in all of them stays in its term: SMs and clock are one product,
and a mode with fewer SMs is slower whether or not SMs were varied.

**Constant.** A time that no clock changes (a program that waits, a network that its host holds up)
follows none of these terms, and is compared with them by leaving measured modes out.

**Prior.** Before anything is measured the time goes as 1 / the engine's clock, and each weight may
be off that by its deviation. With few measurements the prior decides what these leave open
(docs/understand/prediction.md says how it was chosen).

**Bounds.** Measurements alone bound what a network can do in another mode: whatever the weights,
from one mode to another a sum grows by no more than the part that grows most, and by no less than
the part that grows least. That holds of time, power and energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
class Term:
    """The p-norm of products, 1 at the reference; its weight is ``mean`` ± ``deviation`` before
    anything is measured."""

    name: str
    parts: tuple[Product, ...]
    mean: float
    deviation: float
    p: float = math.inf


@dataclass(frozen=True)
class TermBasis:
    """Terms, and the reference of each setting that they use: a geometric mean, in its unit."""

    terms: tuple[Term, ...]
    reference: Mapping[str, float]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that must be known of a mode."""
        used = {name for term in self.terms for part in term.parts for name, _ in part.powers}
        return tuple(name for name in SETTINGS if name in used)

    @property
    def mean(self) -> Array:
        """The weights before anything is measured; together 1."""
        found = np.array([term.mean for term in self.terms])
        return np.asarray(found / found.sum(), dtype=np.float64)

    @property
    def covariance(self) -> Array:
        """Of the weights before anything is measured."""
        deviations = np.array([term.deviation for term in self.terms])
        found: Array = np.diag(deviations**2) + _LEVEL**2 * np.outer(self.mean, self.mean)
        return found


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


# Means and deviations of the weights: those that predict recorded sweeps best.
_CONSTANT, _MEMORY, _COUNTED, _CLOCK, _LAUNCH, _RIDGES = (
    (0.01, 0.12), (0.02, 0.2), (0.27, 0.1), (0.65, 0.1), (0.005, 0.06), (0.045, 0.8),
)  # fmt: skip
# Of a CPU with its cores: its threads share the work, and its clock alone says little.
_CORES, _ONE_CORE = (0.82, 0.2), (0.1, 0.2)


def _engine(known: tuple[str, ...]) -> tuple[str, str]:
    """The clock that a network's work follows, and the count of what it clocks."""
    return ("gpu_hz", "n_sms") if "gpu_hz" in known or "n_sms" in known else ("cpu_hz", "n_cpus")


def time_basis(measured: Mapping[str, Array], p: float) -> TermBasis:
    """The terms of a network's time from modes with these settings; ``p``: how layers overlap."""
    known = known_settings(measured)
    clock, count = _engine(known)
    counted = tuple((name, -1.0) for name in (clock, count) if name in known)
    memory = (("memory_hz", -1.0),) if "memory_hz" in known else ()
    terms = [_single("constant", (), _CONSTANT)]
    if memory:
        terms.append(_single("memory", memory, _MEMORY))
    if counted:
        of_cores = clock == "cpu_hz" and len(counted) == 2
        terms.append(_single("engine", counted, _CORES if of_cores else _COUNTED))
        terms += _ridges(counted, memory, measured, p)
    if len(counted) == 2:  # without the count: the GPU's port to memory, a CPU's single thread
        terms.append(_single("engine clock", counted[:1], _ONE_CORE if of_cores else _CLOCK))
    if clock != "cpu_hz" and "cpu_hz" in known:
        terms.append(_single("launch", (("cpu_hz", -1.0),), _LAUNCH))
    return TermBasis(tuple(terms), _reference(measured, known))


def _ridges(
    engine: tuple[tuple[str, float], ...],
    memory: tuple[tuple[str, float], ...],
    measured: Mapping[str, Array],
    p: float,
) -> list[Term]:
    """A term for each place of a layer's ridge. Without a memory clock its time is a constant."""
    relative = _relative(measured, _reference(measured, known_settings(measured)))
    ratio = _product(Product(1.0, engine), relative) / _product(Product(1.0, memory), relative)
    low, high = min(float(ratio.min()), 1 / _LEAST_SPAN), max(float(ratio.max()), _LEAST_SPAN)
    mean, deviation = _RIDGES[0] / N_RIDGES, _RIDGES[1] / math.sqrt(N_RIDGES)
    terms = []
    for place in np.geomspace(low, high, N_RIDGES).tolist():
        size = max(1.0, place) if math.isinf(p) else (1 + place**p) ** (1 / p)
        parts = (Product(1 / size, engine), Product(place / size, memory))
        terms.append(Term("ridge", parts, mean, deviation, p))
    return terms


def constant_basis(measured: Mapping[str, Array]) -> TermBasis:
    """What no setting changes: one term, of modes that say all the settings the measured ones do.

    Exponents of 0, so that a mode without such a setting stays unknown: it may be unlike them all.
    """
    known = known_settings(measured)
    powers = tuple((name, 0.0) for name in known if name != "power_limit_w")
    return TermBasis((_single("constant", powers, (1.0, 0.1)),), _reference(measured, known))


def power_basis(measured: Mapping[str, Array]) -> TermBasis:
    """The terms of a network's power from modes with these settings."""
    known = known_settings(measured)
    clock, count = _engine(known)
    counted = ((count, 1.0),) if count in known else ()
    terms = [_single("constant", (), (0.4, 0.16)), _single("work", ((RATE, 1.0),), (0.4, 0.2))]
    if clock in known:
        for exponent, prior in ((1.0, (0.13, 0.28)), (3.0, (0.02, 0.11))):
            powers = (*counted, (clock, exponent))
            terms.append(_single(f"switching, clock^{exponent:g}", powers, prior))
        terms.append(_single("work, clock²", ((RATE, 1.0), (clock, 2.0)), (0.02, 0.07)))
    elif counted:
        terms.append(_single("switching", counted, (0.15, 0.28)))
    if "memory_hz" in known:
        terms.append(_single("memory", (("memory_hz", 1.0),), (0.03, 0.2)))
    if clock != "cpu_hz" and "cpu_hz" in known:
        cores = (("n_cpus", 1.0),) if "n_cpus" in known else ()
        terms.append(_single("cores", (*cores, ("cpu_hz", 1.0)), (0.02, 0.1)))
    return TermBasis(tuple(terms), _reference(measured, known))


def evaluate(basis: TermBasis, values: Mapping[str, Array], rate: Array | None = None) -> Array:
    """Modes × terms. A mode that lacks a setting of a term has NaN there.

    ``rate``: how often the network runs in a second, relative, for terms of power.
    """
    relative = _relative(values, basis.reference)
    n_modes = next(iter(values.values())).size
    if rate is not None:
        relative[RATE] = rate
    found: Array = np.stack([_term(term, relative, n_modes) for term in basis.terms], axis=1)
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


def _reference(values: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(np.exp(np.log(values[name]).mean())) for name in names}


def _relative(values: Mapping[str, Array], reference: Mapping[str, float]) -> dict[str, Array]:
    return {name: values[name] / mean for name, mean in reference.items()}


def _term(term: Term, relative: Mapping[str, Array], n_modes: int) -> Array:
    parts = [np.broadcast_to(_product(part, relative), n_modes) for part in term.parts]
    if len(parts) == 1:
        return np.array(parts[0], dtype=np.float64)
    if math.isinf(term.p):
        return np.asarray(np.maximum.reduce(parts), dtype=np.float64)
    return np.asarray(sum(part**term.p for part in parts) ** (1 / term.p), dtype=np.float64)


def _product(part: Product, relative: Mapping[str, Array]) -> Array:
    found = np.array(part.scale)
    for name, exponent in part.powers:
        # NaN^0 is 1, but what is not known stays unknown.
        found = found * np.where(np.isnan(relative[name]), np.nan, relative[name] ** exponent)
    return np.asarray(found, dtype=np.float64)
