"""What is missing to decide, why, and what helps."""

from __future__ import annotations

import re

import numpy as np

from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.missing import missing_quantity, why_missing
from mansard.analytics.decisions.recommend import FallBack
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.values import Values
from mansard.analytics.pages.words.sentences import unknown_words

_METER = "measure with a power meter ('mansard doctor' says what is missing)"
# By what the reasons of the models say, the first that matches.
_REMEDIES = (
    (r"too few points", "measure more of it: 'mansard bench --profile full'"),
    (
        r"not identifiable",
        "the meter was read, but the fit is too noisy: measure longer windows and more "
        "repetitions ('mansard bench --profile full')",
    ),
    (r"no such column|leaves it empty", "import its power or energy with the times"),
    (r"power was measured in no mode", "measure its power in 4 modes: 'mansard plan' picks them"),
    (
        r"\bits .* (is|are) not known|not known of this mode|mode of this network says its",
        "give the modes all their clocks",
    ),
    (r"no clock is known of all", "give the modes all their clocks"),
    (r"meter|no energy|no power|power was not recorded", _METER),
)


def remedy(reason: str | None) -> str:
    """What helps against ``reason``; a meter where nothing is said."""
    if not reason:
        return _METER
    found = (way for pattern, way in _REMEDIES if re.search(pattern, reason))
    return next(found, "")


def what_is_missing(values: Values, screened: Screen, wanted: Wanted) -> str:
    """The energy or power that the question needs, why it is unknown, and what helps."""
    everything = np.ones(len(values), dtype=np.bool_)
    needed = missing_quantity(values, screened, wanted, everything)
    reason = why_missing(values, everything)
    why = f" ({reason})" if reason else ""
    ways = [way] if (way := remedy(reason)) else []
    if wanted.minimise != "latency":
        ways.append("minimise latency")
    if wanted.max_energy_j is not None or wanted.max_power_w is not None:
        last = "leave out limits of power and energy"
        is_first = wanted.minimise == "latency"
        ways = [*ways, last] if is_first else [*ways[:-1], f"{ways[-1]} and {last}"]
    return f"{unknown_words(needed, 'every mode')}{why}: {', or '.join(ways)}"


def lacking_note(values: Values, screened: Screen, wanted: Wanted, rows: Mask) -> str:
    """How many have nothing to be compared by, why, and what helps; empty for none."""
    n_rows = int(rows.sum())
    if not n_rows:
        return ""
    needed = missing_quantity(values, screened, wanted, rows)
    reason = why_missing(values, rows)
    why = f" ({reason})" if reason else ""
    way = remedy(reason)
    of = f"{n_rows} of {len(values)} candidates"
    return f"{unknown_words(needed, of)}{why}, and they are left out{': ' * bool(way)}{way}"


def fallback_note(fallback: FallBack) -> str:
    """That modes are compared by their times, because too few have an energy, and what helps."""
    why = f" ({fallback.reason})" if fallback.reason else ""
    way = remedy(fallback.reason)
    n_modes = fallback.n_modes
    modes = f"{fallback.n_known or 'none'} of {n_modes} modes" if n_modes > 1 else "no mode"
    return (
        f"energy is known in {modes}{why}: modes are compared by their times, not by their "
        f"energies{'; to compare energies, ' * bool(way)}{way}"
    )
