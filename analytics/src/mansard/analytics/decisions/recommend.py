"""The mode, batch and precision for a network: the best by an objective that keeps the limits.

There are three answers: a choice, the nearest candidate where none keeps the limits, or nothing,
with what is missing. An answer is facts; ``pages.words`` puts them in sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from mansard.analytics.data.accuracies import NetworkAccuracy, by_precision
from mansard.analytics.decisions.alternatives import (
    Baseline,
    find_baselines,
    find_equals,
    find_neighbours,
    find_savings,
    most_excess,
)
from mansard.analytics.decisions.choice import (
    Claim,
    best_measured,
    choose,
    choose_likeliest,
    find_claim,
    find_decisive,
    is_likeliest,
)
from mansard.analytics.decisions.limits import (
    Accuracies,
    DropScreen,
    Mask,
    Nearness,
    Screen,
    check_limits,
    find_nearest,
    find_relaxations,
    nearness,
    screen,
    without_drops,
)
from mansard.analytics.decisions.missing import unknown_modes, why_missing
from mansard.analytics.decisions.records import (
    Candidate,
    CandidateCounts,
    LimitCheck,
    Relaxation,
    Saving,
    Verdict,
    Wanted,
)
from mansard.analytics.decisions.values import Values, read_values
from mansard.core.errors import UsageError


@dataclass(frozen=True)
class FallBack:
    """That the least time is wanted instead of the least energy: few modes have an energy."""

    n_modes: int
    n_known: int  # of these, with an energy
    reason: str  # why most of the others have none; empty where no row says it


@dataclass(frozen=True, eq=False)
class Question:
    """What was asked, of which values, and what is known of each of them.

    ``kept`` and ``open`` can be compared, and keep every limit or may; ``broken`` break one;
    ``unknown`` may keep them, but have no energy or power to tell by.
    """

    values: Values
    wanted: Wanted
    screened: Screen
    baselines: Sequence[Baseline]
    kept: Mask
    open: Mask
    broken: Mask
    unknown: Mask
    accuracies: Accuracies  # by precision; empty: none was measured
    drops: DropScreen | None  # precisions held against a limit on the drop of accuracy
    timeless: Mapping[str, str]  # modes that were asked for and have no time, and why
    fallback: FallBack | None

    @property
    def counts(self) -> CandidateCounts:
        """How many there are of each kind."""
        masks = {"kept": self.kept, "open": self.open, "broken": self.broken}
        numbers = {f"n_{name}": int(mask.sum()) for name, mask in masks.items()}
        return CandidateCounts(
            n_all=len(self.values),
            n_unknown=int(self.unknown.sum()),
            n_measured=int(self.values.is_measured.sum()),
            n_timeless=len(self.timeless),
            are_modes=self.values.frame["mode"].n_unique() == len(self.values),
            **numbers,
        )

    def accuracy(self, choice: Candidate) -> tuple[NetworkAccuracy | None, str]:
        """The network's accuracy in the precision of ``choice``, or None and the reason."""
        accuracy = self.accuracies.get(choice.precision)
        return accuracy, "it was not measured" if accuracy is None else ""

    @property
    def compared(self) -> Mask:
        """Those whose objective and limits are known."""
        objective = self.values.objective(self.wanted.minimise).value
        return np.asarray(self.screened.is_known & ~np.isnan(objective))


def read_question(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline],
    accuracies: Accuracies,
    asked: Sequence[str],
) -> Question:
    """Sort the candidates by what is known of them; raises UsageError as ``screen``.

    ``asked``: the modes to choose from; those that have no prediction stay in the question.
    """
    timeless = unknown_modes(predictions, asked, wanted.batches)
    predictions, drops = without_drops(predictions, wanted, accuracies)
    values = read_values(predictions, wanted)
    # A mode without a row has no time either.
    values = replace(values, n_timeless=max(values.n_timeless, len(timeless)))
    fallback = None
    if wanted.falls_back and wanted.minimise == "energy":
        wanted, fallback = _fall_back(values, wanted)
    screened = screen(values, wanted)
    objective = values.objective(wanted.minimise).value
    is_comparable = screened.is_known & ~np.isnan(objective)
    is_broken = screened.is_broken
    return Question(
        values,
        wanted,
        screened,
        baselines,
        kept=is_comparable & screened.is_kept,
        open=is_comparable & ~screened.is_kept & ~is_broken,
        broken=is_broken,
        unknown=~is_comparable & ~is_broken,
        accuracies=accuracies,
        drops=drops,
        timeless=timeless,
        fallback=fallback,
    )


def _fall_back(values: Values, wanted: Wanted) -> tuple[Wanted, FallBack | None]:
    """The least time instead of the least energy where that cannot be compared, and why.

    It can where it is known in several modes, or in the only one there is: else the mode that
    happens to have an energy would be called the best.
    """
    has_energy = ~np.isnan(values.energy.value)
    modes = values.frame["mode"]
    n_modes, n_known = modes.n_unique(), modes.filter(pl.Series(has_energy)).n_unique()
    if n_known >= min(2, n_modes):
        return wanted, None
    fallback = FallBack(n_modes, n_known, why_missing(values, ~has_energy))
    return replace(wanted, minimise="latency"), fallback


@dataclass(frozen=True, eq=False, kw_only=True)
class Decision:
    """What is decided for one network on one device, and what speaks for it.

    ``at``: the row of ``question.values`` that is recommended or, where each known row breaks a
    limit, the nearest; None where there is none to name. ``question`` is None where nothing may
    be recommended, for the reason in ``refused``.
    """

    device: str
    network: str
    wanted: Wanted
    verdict: Verdict
    refused: str = ""
    question: Question | None = None
    at: int | None = None
    choice: Candidate | None = None
    claim: Claim | None = None  # of a choice that keeps every limit or may
    is_likeliest: bool = False  # no other candidate keeps the limits with a greater probability
    nearest: tuple[Candidate, ...] = ()  # of an infeasible one: the least violation first
    nearness: Nearness | None = None
    checks: tuple[LimitCheck, ...] = ()
    savings: tuple[Saving, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    most_excess: float | None = None
    why_no_excess: str = ""
    equals: tuple[Candidate, ...] = ()
    n_equals: int = 0
    neighbours: tuple[Candidate, ...] = ()
    measured: Candidate | None = None  # the best measured one, beside a modelled choice
    decisive: Candidate | None = None  # the one whose measurement would decide most
    is_all_known: bool = True  # a looser limit that would be enough is known of all rows


def _choose(asked: Question, at: int) -> Decision:
    """The decision for row ``at``, which keeps every limit or may."""
    values, wanted, screened = asked.values, asked.wanted, asked.screened
    counts = asked.counts
    choice = values.candidate(at)
    is_kept = bool(asked.kept[at])
    excess, why_no_excess = most_excess(values, wanted, at, asked.compared & screened.may_be)
    equals, n_equals = find_equals(values, wanted, at, asked.kept) if is_kept else ((), 0)
    measured = None
    if not choice.is_measured:
        measured = best_measured(values, screened, wanted, asked.compared)
    decisive = find_decisive(values, screened, wanted, at, asked.kept | asked.open)
    noun = "mode" if counts.are_modes and counts.n_asked > 1 else "candidate"
    return Decision(
        device=choice.device,
        network=choice.network,
        wanted=wanted,
        verdict="feasible" if is_kept else "uncertain",
        question=asked,
        at=at,
        choice=choice,
        claim=find_claim(values, screened, wanted, at, asked.kept, noun),
        is_likeliest=is_likeliest(values, screened, at, asked.open)
        and not (asked.unknown.any() or values.n_timeless),
        checks=check_limits(choice, wanted),
        savings=find_savings(values, choice, asked.baselines),
        relaxations=() if is_kept else find_relaxations(values, screened, wanted, asked.compared),
        most_excess=excess,
        why_no_excess=why_no_excess,
        equals=equals,
        n_equals=n_equals,
        neighbours=find_neighbours(values, wanted, at, asked.compared),
        measured=None if measured is None else values.candidate(measured),
        decisive=None if decisive is None else values.candidate(decisive),
    )


def _come_nearest(asked: Question) -> Decision:
    """The decision where every row of which it is known breaks a limit: the nearest of them."""
    values, screened, wanted = asked.values, asked.screened, asked.wanted
    rows = find_nearest(values, screened, wanted, asked.broken)
    nearest = tuple(values.candidate(at) for at in rows)
    return Decision(
        device=nearest[0].device,
        network=nearest[0].network,
        wanted=wanted,
        verdict="unknown" if asked.timeless or asked.unknown.any() else "infeasible",
        question=asked,
        at=rows[0],
        choice=nearest[0],
        nearest=nearest,
        nearness=nearness(values, screened, rows[0], asked.broken),
        checks=check_limits(nearest[0], wanted),
        savings=find_savings(values, nearest[0], asked.baselines),
        relaxations=find_relaxations(values, screened, wanted, asked.compared),
        is_all_known=bool(
            asked.compared.all() and _has_ends(values).all() and not values.n_timeless
        ),
    )


def _has_ends(values: Values) -> Mask:
    """Which rows can keep a limit, if it is loose enough: those with an interval."""
    interval = values.latency.interval
    return np.asarray((interval == "spread") | (interval == "bounds"))


def decide_each(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    wanted: Wanted,
    defaults: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
    *,
    accuracies: Sequence[NetworkAccuracy] = (),
    observations: pl.DataFrame | None = None,
) -> tuple[Decision, ...]:
    """One decision for each device, network and phase of ``predictions``.

    The highest of ``modes`` (MODE_SCHEMA) and the mode that ``defaults`` names for the device
    are what the choice is compared with. ``refused``: by device and network, why there is none.
    ``accuracies``: how often networks are right, of several engines on those of ``observations``
    (OBSERVATION_SCHEMA).
    """
    decisions: list[Decision] = []
    keys = ("device", "network", "phase")
    for rows in predictions.sort(*keys).partition_by(*keys, maintain_order=True):
        device = str(rows["device"][0])
        why = (refused or {}).get((device, str(rows["network"][0])))
        if why is not None:
            none = Decision(
                device=device,
                network=str(rows["network"][0]),
                wanted=wanted,
                verdict="unknown",
                refused=why,
            )
            decisions.append(none)
            continue
        of_device = modes.filter(pl.col("device") == device)
        asked = of_device["mode"].to_list()
        baselines = find_baselines(of_device, rows, (defaults or {}).get(device))
        known = by_precision(accuracies, device, str(rows["network"][0]), observations)
        decisions.append(decide(rows, wanted, baselines, known, asked))
    return tuple(decisions)


def decide(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline] = (),
    accuracies: Accuracies | None = None,
    asked: Sequence[str] = (),
) -> Decision:
    """The best of ``predictions`` (PREDICTION_SCHEMA), which are of one network on one device.

    Among those that keep every limit the one of the least risk-adjusted objective, where what was
    measured is preferred (``choice.choose``); where there is none, of those that may keep them the
    likeliest; where each breaks one, the one that breaks them least. ``accuracies``: how often the
    network is right, by precision. ``asked``: the modes to choose from; one that has no time may
    change the answer, which says so. Raises UsageError for a limit that is not above 0, or for
    predictions of several networks, devices or phases.
    """
    _check_single(predictions)
    question = read_question(predictions, wanted, baselines, accuracies or {}, asked)
    values, wanted = question.values, question.wanted
    if question.kept.any():
        return _choose(question, choose(values, wanted, question.kept))
    if question.open.any():
        at = choose_likeliest(values, question.screened, wanted, question.open)
        return _choose(question, at)
    if question.broken.any():
        return _come_nearest(question)
    is_empty = predictions.is_empty()
    device, network = (
        "" if is_empty else str(predictions[name][0]) for name in ("device", "network")
    )
    return Decision(
        device=device, network=network, wanted=wanted, verdict="unknown", question=question
    )


def _check_single(predictions: pl.DataFrame) -> None:
    for column in ("device", "network", "phase"):
        names = predictions[column].unique().sort()
        if len(names) > 1:
            raise UsageError(
                f"a recommendation is for one {column}, there are {len(names)}: "
                f"{', '.join(str(name) for name in names.head(3))}",
                fix="ask for each of them alone",
            )
