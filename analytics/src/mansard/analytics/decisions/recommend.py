"""The best mode, batch and precision for a network by an objective, within limits.

The answer is a choice; or, if every candidate breaks a limit, the nearest one; or nothing, with
what is missing. It consists of facts; ``pages.words`` turns them into sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from mansard.analytics.data.accuracies import NetworkAccuracy
from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.decisions.alternatives import (
    Baseline,
    find_baselines,
    find_equals,
    find_left_out,
    find_lower_settings,
    find_lowest,
    find_neighbours,
    find_savings,
    is_of_gpu,
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
    unknown_modes,
    why_missing,
    without_drops,
)
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
from mansard.core.hardware import LowerSetting


@dataclass(frozen=True)
class FallBack:
    """Time is minimised instead of energy, because too few modes have an energy."""

    n_modes: int
    n_known: int  # of these, with an energy
    reason: str  # the most frequent one why an energy is missing; empty if no row has one


@dataclass(frozen=True, eq=False)
class Question:
    """A request with its candidates, classified by whether they keep the limits.

    ``kept`` keep every limit, ``open`` may keep them; both can be compared. ``broken`` break a
    limit. ``unknown`` may keep the limits, but an energy or power needed to decide is unknown.
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
    drops: DropScreen | None  # precisions compared with a limit on the drop of accuracy
    timeless: Mapping[str, str]  # requested modes that have no time, and why
    fallback: FallBack | None

    @property
    def counts(self) -> CandidateCounts:
        """The number of candidates of each class."""
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
        """The candidates whose objective and limited quantities are known."""
        objective = self.values.objective(self.wanted.minimise).value
        return np.asarray(self.screened.is_known & ~np.isnan(objective))


def read_question(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline],
    accuracies: Accuracies,
    modes: pl.DataFrame,
    *,
    has_ratios: bool,
) -> Question:
    """Classify the candidates by whether they keep the limits; raises UsageError as ``screen``.

    ``modes``: MODE_SCHEMA of those to choose from; what has no prediction stays in the question.
    """
    timeless = unknown_modes(predictions, modes["mode"].to_list(), wanted.batches)
    predictions, drops = without_drops(predictions, wanted, accuracies)
    values = read_values(predictions, wanted)
    # A mode without a row has no time either.
    values = replace(values, n_timeless=max(values.n_timeless, len(timeless)))
    fallback = None
    if wanted.falls_back and wanted.minimise == "energy":
        wanted, fallback = _fall_back(values, wanted)
    screened = screen(values, wanted, has_ratios=has_ratios)
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
    """Minimise time if too few modes have an energy to compare.

    At least two modes need an energy, or the only one; otherwise the one mode that happens to
    have an energy would be called the best.
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
    """The decision for one network on one device, with the facts that support it.

    ``at``: the row of ``question.values`` that is recommended or, if every row breaks a limit, the
    nearest one; None if there is neither. ``question`` is None if the measurements behind the
    predictions were refused; ``refused`` is the reason.
    """

    device: str
    network: str
    wanted: Wanted
    verdict: Verdict
    refused: str = ""
    question: Question | None = None
    at: int | None = None
    choice: Candidate | None = None
    claim: Claim | None = None  # of a choice that keeps, or may keep, every limit
    is_likeliest: bool = False  # no other candidate keeps the limits with a greater probability
    n_ample: int = 0  # of all that meet the limits even at their slowest, like the choice
    ample: tuple[Candidate, ...] = ()  # of the neighbours
    lowest: Candidate | None = None  # of those that meet the limits, where no energy is known
    left_out: tuple[str, ...] = ()  # if every row breaks a limit: other modes of the board
    nearest: tuple[Candidate, ...] = ()  # if every row breaks a limit: the least violation first
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
    decisive: Candidate | None = None  # its measurement would change the decision most
    is_all_known: bool = True  # no unknown value hides a looser limit that would be enough
    # Modes of more nominal power that have less of a setting than others to choose from.
    lower_settings: tuple[LowerSetting, ...] = ()


def _choose(question: Question, at: int) -> Decision:
    """The decision for row ``at``, which keeps, or may keep, every limit."""
    values, wanted, screened = question.values, question.wanted, question.screened
    counts, compared = question.counts, question.compared
    choice = values.candidate(at)
    is_kept = bool(question.kept[at])
    ample = question.open & screened.is_ample
    is_ample = not is_kept and bool(ample[at])
    excess, why_no_excess = most_excess(values, wanted, at, compared & screened.may_be)
    equals, n_equals = find_equals(values, wanted, at, question.kept if is_kept else ample)
    neighbours = find_neighbours(values, wanted, at, compared)
    measured = None
    if not choice.is_measured:
        measured = best_measured(values, screened, wanted, compared)
    decisive = find_decisive(values, screened, wanted, at, question.kept | question.open)
    noun = "mode" if counts.are_modes and counts.n_asked > 1 else "candidate"
    return Decision(
        device=choice.device,
        network=choice.network,
        wanted=wanted,
        verdict="feasible" if is_kept else "uncertain",
        question=question,
        at=at,
        choice=choice,
        claim=find_claim(values, screened, wanted, at, question.kept, noun),
        is_likeliest=is_likeliest(values, screened, at, question.open)
        and not (question.unknown.any() or values.n_timeless),
        n_ample=int(ample.sum()) if is_ample else 0,
        ample=tuple(values.candidate(row) for row in neighbours if ample[row]),
        checks=check_limits(choice, wanted),
        savings=find_savings(values, choice, question.baselines),
        relaxations=() if is_kept else find_relaxations(values, screened, wanted, compared),
        most_excess=excess,
        why_no_excess=why_no_excess,
        equals=equals,
        n_equals=n_equals,
        neighbours=tuple(map(values.candidate, neighbours)),
        measured=None if measured is None else values.candidate(measured),
        decisive=None if decisive is None else values.candidate(decisive),
    )


def _come_nearest(question: Question) -> Decision:
    """The decision if every row that can be compared breaks a limit: the row nearest to them."""
    values, screened, wanted = question.values, question.screened, question.wanted
    rows = find_nearest(values, screened, wanted, question.broken)
    nearest = tuple(values.candidate(at) for at in rows)
    return Decision(
        device=nearest[0].device,
        network=nearest[0].network,
        wanted=wanted,
        verdict="unknown" if question.timeless or question.unknown.any() else "infeasible",
        question=question,
        at=rows[0],
        choice=nearest[0],
        nearest=nearest,
        nearness=nearness(values, screened, rows[0], question.broken),
        checks=check_limits(nearest[0], wanted),
        savings=find_savings(values, nearest[0], question.baselines),
        relaxations=find_relaxations(values, screened, wanted, question.compared),
        is_all_known=bool(
            question.compared.all() and _has_ends(values).all() and not values.n_timeless
        ),
    )


def _has_ends(values: Values) -> Mask:
    """The rows that keep a limit once it is loose enough: those with a spread or bounds."""
    interval = values.latency.interval
    return np.asarray((interval == "spread") | (interval == "bounds"))


def of_one_batch(predictions: pl.DataFrame) -> pl.DataFrame:
    """``predictions`` (PREDICTION_SCHEMA) of one batch of each network on each device.

    That is the smallest that ran, else the smallest. Tables and figures show it, and so do answers
    to questions that name no batch.
    """
    of = ("device", "network", "phase")
    batch = pl.col("batch").fill_null(1)
    ran = pl.when(pl.col("source") != "modelled").then(batch).min()
    return predictions.filter(batch == pl.coalesce(ran, batch.min()).over(of))


def decide_each(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    wanted: Wanted,
    defaults: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
    *,
    accuracies_of: Callable[[str, str], Accuracies] | None = None,
    left_out: Mapping[tuple[str, str], Collection[str]] | None = None,
    unbounded: Collection[str] = (),
) -> tuple[Decision, ...]:
    """One decision for each device, network and phase of ``predictions``.

    The highest of ``modes`` (MODE_SCHEMA) and that which ``defaults`` names for the device are the
    baselines. By device and network, ``refused``: why nothing is recommended, ``left_out``: modes
    not to choose, ``accuracies_of``: accuracies. ``unbounded``: devices of published rates.
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
        omitted = (left_out or {}).get((device, str(rows["network"][0])), ())
        allowed = of_device.filter(~pl.col("mode").is_in(list(omitted)))
        baselines = find_baselines(of_device, rows, (defaults or {}).get(device))
        known = accuracies_of(device, str(rows["network"][0])) if accuracies_of else {}
        has_ratios = device not in unbounded
        decision = decide(rows, wanted, baselines, known, allowed, has_ratios=has_ratios)
        lowest, asked = None, decision.question
        if asked is not None and (asked.fallback is not None or decision.choice is None):
            lowest = find_lowest(asked.values, asked.screened, allowed)
        left = () if decision.nearness is None else find_left_out(of_device)
        lower = find_lower_settings(of_device)
        decisions.append(replace(decision, lower_settings=lower, lowest=lowest, left_out=left))
    return tuple(decisions)


def decide(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline] = (),
    accuracies: Accuracies | None = None,
    modes: pl.DataFrame | None = None,
    *,
    has_ratios: bool = True,
) -> Decision:
    """The best of ``predictions`` (PREDICTION_SCHEMA) of one network on one device.

    Of the rows that keep every limit, the one with the least risk-adjusted objective; measured rows
    are preferred (``choice.choose``). If there is none, the most likely of those that may keep
    the limits; if every row breaks one, the row that breaks them least. ``accuracies``: of the
    network, by precision. ``modes``: MODE_SCHEMA of those to choose from; the answer names those
    without a time. ``has_ratios``: ratios of real times to such roofs are recorded. Raises
    UsageError for a limit that is not above 0, or for several networks, devices or phases.
    """
    _check_single(predictions)
    modes = pl.DataFrame(schema=MODE_SCHEMA) if modes is None else modes
    has_ratios &= is_of_gpu(modes)
    known = accuracies or {}
    question = read_question(predictions, wanted, baselines, known, modes, has_ratios=has_ratios)
    values, wanted = question.values, question.wanted
    if question.kept.any():
        return _choose(question, choose(values, wanted, question.kept))
    if question.open.any():
        at = choose_likeliest(values, question.screened, wanted, question.open)
        return _choose(question, at)
    # Where others meet the limits and lack the objective alone, none is the nearest.
    meets = question.screened.is_kept | question.screened.is_ample
    if question.broken.any() and not (question.unknown & meets).any():
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
