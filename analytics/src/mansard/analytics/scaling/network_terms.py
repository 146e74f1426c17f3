"""What the time and the power of a network are made of, as functions of a mode's clocks.

**Time.** A layer takes max(w / compute rate, q / memory rate), or a little more where the two
do not overlap perfectly: the p-norm of both, with p = 1 where nothing overlaps and p → ∞ for
the roofline itself. A network is a sum of layers, so its time is a sum of such terms with
weights that are not negative, one for each place that a layer's ridge can have between the
clocks, plus what no clock changes and what the CPU's clock does (launches).

**Power.** A constant part; switching, a·f·V², with the voltage V affine in f above the lowest
that the chip allows, so that f, and f³ with it, span it; and the energy of a network's work
times the rate at which it is done.

All columns are relative to the geometric mean of the modes that a basis is built from, so that
every term is about 1 there.

**Bounds.** One measurement alone bounds what a network can do in another mode. A time is a sum of
parts that are each proportional to 1 / some clock, or the same everywhere, or the longer of two
such parts. Whatever their weights, from one mode to another the sum grows by no more than the part
that grows most, and by no less than the part that grows least. A power is such a sum too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]

SETTINGS = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus", "power_limit_w")
RATE = "rate"  # networks per second, relative; a column of power terms alone
N_RIDGES = 9  # places for a layer's ridge between the slowest and the fastest ratio of clocks
_SAME = 1e-3  # settings closer than that are one: clocks are read back to a few kHz


@dataclass(frozen=True)
class Product:
    """``scale`` times settings to a power, each relative to its reference."""

    scale: float
    powers: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Term:
    """The p-norm of products; a product alone is itself whatever ``p`` is."""

    name: str
    parts: tuple[Product, ...]
    p: float = math.inf


@dataclass(frozen=True)
class Basis:
    """Terms, and the reference of each setting that they use: a geometric mean, in its unit."""

    terms: tuple[Term, ...]
    reference: Mapping[str, float]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that must be known of a mode."""
        used = {name for term in self.terms for part in term.parts for name, _ in part.powers}
        return tuple(name for name in SETTINGS if name in used)


def setting_values(modes: pl.DataFrame) -> dict[str, Array]:
    """Each setting of ``modes`` (MODE_SCHEMA) as an array; NaN where it is no positive number."""
    known = modes.select(usable(name).cast(pl.Float64).fill_null(math.nan) for name in SETTINGS)
    return {name: known.get_column(name).to_numpy() for name in SETTINGS}


def usable(name: str) -> pl.Expr:
    """The setting ``name``, null where it is no positive number (Polars takes NaN for large)."""
    column = pl.col(name)
    return pl.when(column.cast(pl.Float64).is_finite() & (column > 0)).then(column).alias(name)


def varying(values: Mapping[str, Array]) -> tuple[str, ...]:
    """The settings that are known and positive in all modes, and differ between them."""
    return tuple(
        name
        for name in SETTINGS
        if (column := values[name]).size
        and bool((column > 0).all())
        and float(column.max()) > float(column.min()) * (1 + _SAME)
    )


def time_basis(values: Mapping[str, Array], p: float) -> Basis:
    """The terms of a network's time for modes with these settings; ``p``: how layers overlap."""
    varies = varying(values)
    gpu = tuple((name, -1.0) for name in ("gpu_hz", "n_sms") if name in varies)
    cpu = tuple((name, -1.0) for name in ("cpu_hz", "n_cpus") if name in varies)
    memory = (("memory_hz", -1.0),) if "memory_hz" in varies else ()
    reference = _reference(values, varies)
    terms = [_single("constant", ())]
    if memory:
        terms.append(_single("memory", memory))
    for name, engine in (("gpu", gpu), ("cpu", cpu)):
        if engine:
            terms.append(_single(name, engine))
            terms += _ridges(name, engine, memory, _relative(values, reference), p)
        if len(engine) == 2:
            # One clock without the count: the GPU's port to memory, a CPU's single thread.
            terms.append(_single(f"{name} clock", engine[:1]))
    return Basis(tuple(terms), reference)


def power_basis(values: Mapping[str, Array], form: str) -> Basis:
    """The terms of the power for modes with these settings; ``form`` is one of POWER_FORMS."""
    varies = varying(values)
    terms = [_single("constant", ())]
    if form == "work":
        terms += _clock_terms(varies, (3.0,))
    else:
        terms += [_single("memory", (("memory_hz", 1.0),))] if "memory_hz" in varies else []
        terms += _clock_terms(varies, (1.0, 3.0))
    if form != "clocks":
        terms.append(_single("work", ((RATE, 1.0),)))
        terms += [
            _single(f"work {name}²", ((RATE, 1.0), (name, 2.0)))
            for name in ("gpu_hz", "cpu_hz")
            if name in varies
        ]
    return Basis(tuple(terms), _reference(values, varies))


POWER_FORMS = ("clocks", "work", "clocks and work")


def evaluate(basis: Basis, values: Mapping[str, Array], rate: Array | None = None) -> Array:
    """Modes × terms. A mode that lacks a setting of a term has NaN there.

    ``rate``: how often the network runs in a second, relative, for terms of power.
    """
    relative = _relative(values, basis.reference)
    n_modes = next(iter(values.values())).size
    if rate is not None:
        relative[RATE] = rate
    found: Array = np.stack([_term(term, relative, n_modes) for term in basis.terms], axis=1)
    return found


def _single(name: str, powers: tuple[tuple[str, float], ...]) -> Term:
    return Term(name, (Product(1.0, powers),))


def _clock_terms(varies: Sequence[str], exponents: Sequence[float]) -> list[Term]:
    """Each engine's clock to the exponents, times its count of SMs or cores."""
    terms = []
    for clock, count in (("gpu_hz", "n_sms"), ("cpu_hz", "n_cpus")):
        of_count = ((count, 1.0),) if count in varies else ()
        if clock in varies:
            terms += [_single(f"{clock}^{e:g}", (*of_count, (clock, e))) for e in exponents]
        elif of_count:
            terms.append(_single(count, of_count))
    return terms


def _ridges(
    name: str,
    engine: tuple[tuple[str, float], ...],
    memory: tuple[tuple[str, float], ...],
    relative: Mapping[str, Array],
    p: float,
) -> list[Term]:
    """A term for each place of a layer's ridge; none where nothing overlaps (p = 1).

    Where the memory's clock is the same in all modes its time is a constant.
    """
    if p == 1:
        return []
    ratio = _product(Product(1.0, engine), relative) / _product(Product(1.0, memory), relative)
    low, high = float(ratio.min()), float(ratio.max())
    # Beyond the ends a layer is bound by one side in every mode, and has its term already.
    places = np.geomspace(low, high, N_RIDGES + 2)[1:-1] if high > low else ()
    return [
        Term(f"{name} ridge", (Product(1.0, engine), Product(float(place), memory)), p)
        for place in places
    ]


def _reference(values: Mapping[str, Array], names: Sequence[str]) -> dict[str, float]:
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
        found = found * relative[name] ** exponent
    return np.asarray(found, dtype=np.float64)


def latency_bounds(
    measured: pl.DataFrame, values: Mapping[str, Array], n_modes: int
) -> tuple[Array, Array, Array]:
    """Geometric middle, least and most seconds of a network in the modes of ``values``.

    ``measured``: rows with SETTINGS and ``latency_s``. NaN where no measured mode names the same
    settings.
    """
    low, high = np.full(n_modes, math.nan), np.full(n_modes, math.nan)
    for row, alike, together in _beside(measured, values):
        growth = _growth(evaluate(time_basis(together, 1.0), together))
        low[alike] = np.fmax(low[alike], row["latency_s"] * growth.min(axis=1))
        high[alike] = np.fmin(high[alike], row["latency_s"] * growth.max(axis=1))
    # Two measurements contradict each other by their noise: the ends may cross by as much.
    low, high = np.minimum(low, high), np.maximum(low, high)
    return np.sqrt(low * high), low, high


def least_power_w(measured: pl.DataFrame, values: Mapping[str, Array], n_modes: int) -> Array:
    """The least power of a network in the modes of ``values``, W; 0 where nothing bounds it.

    ``measured``: rows with SETTINGS and ``power_w``, null where it was not metered.
    """
    least = np.zeros(n_modes)
    metered = measured.filter(pl.col("power_w").is_not_null())
    for row, alike, together in _beside(metered, values):
        slowing = _growth(evaluate(time_basis(together, 1.0), together)).max(axis=1)
        rate = np.concatenate([[1.0], 1 / slowing])
        growth = _growth(evaluate(power_basis(together, "clocks and work"), together, rate))
        least[alike] = np.maximum(least[alike], row["power_w"] * growth.min(axis=1))
    return least


def _beside(
    measured: pl.DataFrame, values: Mapping[str, Array]
) -> Iterator[tuple[dict[str, float], NDArray[np.int64], dict[str, Array]]]:
    """Each measured row, the modes that name the same settings as it does, and both together.

    A setting that neither names is taken to be the same in both; one that only one of them names
    leaves nothing to compare.
    """
    known = setting_values(measured)
    for at, row in enumerate(measured.select("latency_s", "power_w").iter_rows(named=True)):
        same = [np.isnan(values[name]) == np.isnan(known[name][at]) for name in SETTINGS]
        alike = np.flatnonzero(np.logical_and.reduce(same))
        if alike.size:
            first = slice(at, at + 1)
            yield (
                row,
                alike,
                {
                    name: np.concatenate([known[name][first], values[name][alike]])
                    for name in SETTINGS
                },
            )


def _growth(terms: Array) -> Array:
    """Each term of each mode over that of the first row."""
    return np.asarray(terms[1:] / terms[0], dtype=np.float64)
