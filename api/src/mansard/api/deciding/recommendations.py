"""Which mode, batch size and precision networks should run in, and the commands that set it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.analytics.data.accuracies import NetworkAccuracy, by_precision, network_accuracies
from mansard.analytics.data.published.store import devices_of_hardware, devices_of_rates
from mansard.analytics.decisions import batches
from mansard.analytics.decisions.first_token import screen_first_tokens
from mansard.analytics.decisions.limits import without_energy
from mansard.analytics.decisions.recommend import decide_each, of_one_batch
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.models.predict.measured import prefer_observed
from mansard.analytics.models.sanity.checks import find_faults
from mansard.analytics.models.sanity.finding import Finding, refusals
from mansard.analytics.pages.words.comparisons import unknown_modes_notes, with_remarks
from mansard.analytics.pages.words.first_token import with_first_token
from mansard.analytics.pages.words.recommendation import in_words
from mansard.api.deciding.candidate_modes import elsewhere_note, local_devices
from mansard.api.deciding.measuring_words import mode_commands
from mansard.api.deciding.next_measurement import NextMeasurement, find_measurement
from mansard.api.deciding.predictions import (
    PredictionRequest,
    as_request,
    check_models,
    predicted_parts,
    set_aside_notes,
)
from mansard.api.deciding.published_boards import with_published
from mansard.api.inputs import Networks, Runs
from mansard.core.errors import MansardError, UsageError
from mansard.core.hardware import KnownMode, boards_called, find_mode
from mansard.core.text import natural_key
from mansard.device.mode_commands import root_of
from mansard.device.power_modes.listing import list_board
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
    from mansard.analytics.decisions.records import Recommendation
    from mansard.analytics.models.predict.models import Models
    from mansard.analytics.models.predict.prediction import Basis


# What "auto" tries: powers of two, as throughput changes with the ratio of batch sizes.
AUTO_BATCHES = (1, 2, 4, 8, 16, 32, 64)


def recommend(
    request: PredictionRequest | Networks,
    wanted: Wanted | None = None,
    default: str | None = None,
    reporter: Reporter = SILENT,
    *,
    runs: Runs | None = None,
    dask: str | None = None,
) -> tuple[Recommendation, ...]:
    """Recommend a power mode for each network on each device; measures and sets nothing.

    ``request``: networks, or a request with modes, batches and precisions. ``wanted``: what to
    minimise, and limits; least energy by default. ``default``: the mode to compare with; by
    default that in which the board starts. ``runs``: folders of runs, instead of the request's.
    ``dask``: address of a Dask scheduler, whose workers decide network by network. Without runs, a
    ``device`` that names a board is predicted from published figures.

    Returns one answer for each network and device: the mode, its savings, the modes that came
    near, the probability of each limit, and the commands that set the mode. If no mode keeps the
    limits, ``nearest`` has those that miss by the least. Raises as ``predict``, UsageError for an
    unknown ``default``, and ClusterError.

    >>> import mansard as m
    >>> limits = m.Wanted(minimise="energy", max_latency_s=20e-3)
    >>> (answer,) = m.recommend("seen", limits, runs="published")
    >>> answer.choice.mode, answer.verdict
    ('gpu800-emc3200', 'feasible')
    """
    with with_published(as_request(request, runs), reporter) as asked:
        answers = answer_questions(asked, wanted or Wanted(), default, reporter, dask=dask)
    return tuple(answer.recommendation for answer in answers)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A recommendation, and what would measure its ``measure_next``; None where nothing can.

    ``is_here``: whether that is a mode of this machine.
    """

    recommendation: Recommendation
    measurement: NextMeasurement | None
    is_here: bool


def answer_questions(
    request: PredictionRequest,
    wanted: Wanted,
    default: str | None,
    reporter: Reporter,
    *,
    dask: str | None = None,
) -> tuple[Answered, ...]:
    """As ``recommend``, with what would measure the next mode of each."""

    def shared(models: Models) -> _DecisionInputs:
        return _DecisionInputs(
            wanted=wanted,
            defaults=_defaults(models, default, request.board),
            findings=find_faults(models),
            accuracies=tuple(network_accuracies(models.dataset)),
            is_one_batch=not request.batches and wanted.batches is None,
            unbounded=devices_of_rates(models.published),
        )

    models, basis, parts = predicted_parts(
        _recommend_some, request, shared, dask=dask, reporter=reporter
    )
    answers = [answer for part in parts for answer in part]
    check_models(models, {answer.network for answer in answers}, reporter)
    elsewhere = cache(partial(elsewhere_note, board=request.board))  # one look at this machine
    notes = {
        name: f"{sentence}; measure again: {command}"
        for name, (sentence, command) in set_aside_notes(models, request).items()
    }
    of_hardware = {("roofs", name) for name in devices_of_hardware(models.published)}
    answers = [
        msgspec.structs.replace(
            answer,
            set_aside=notes.get(answer.network, ""),
            basis="hardware" if (answer.basis, answer.device) in of_hardware else answer.basis,
        )
        for answer in answers
    ]
    return tuple(
        _with_commands(decided, models, basis.modes, request, elsewhere)
        for decided in sorted(
            answers, key=lambda decided: (decided.device, natural_key(decided.network))
        )
    )


class _DecisionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The request and the facts, beside predictions, that all decisions share."""

    wanted: Wanted
    defaults: Mapping[str, str]
    findings: tuple[Finding, ...]
    accuracies: tuple[NetworkAccuracy, ...]
    is_one_batch: bool  # whether no batch was asked for
    unbounded: frozenset[str]  # devices whose roofs are published rates, and no bounds


def _recommend_some(
    network: str | None, shared: tuple[Basis, _DecisionInputs]
) -> tuple[tuple[Recommendation, ...], int]:
    """Recommendations for one network or all, without commands; and the number of predictions."""
    basis, inputs = shared
    predictions = basis.predictions(network)
    n_modelled, names = predictions.height, predictions["network"].unique().to_list()
    findings = [finding for finding in inputs.findings if finding.is_about(names)]
    # Rebinding the name frees the first frame: it can have a million rows.
    predictions = prefer_observed(predictions, basis.observations, basis.known, basis.modes)
    predictions, refused = believable(
        predictions, basis.scores["score_id"].to_list(), findings, inputs.wanted
    )
    if inputs.is_one_batch:
        predictions = of_one_batch(predictions)
    tokens = screen_first_tokens(predictions, inputs.wanted)
    decisions = decide_each(
        tokens.predictions,
        basis.modes,
        inputs.wanted,
        inputs.defaults,
        refused,
        accuracies_of=partial(by_precision, inputs.accuracies, observations=basis.observations),
        left_out=tokens.left_out,
        unbounded=inputs.unbounded,
    )
    answers = (
        with_first_token(
            in_words(decision), None if decision.choice is None else tokens.of(decision.choice)
        )
        for decision in decisions
    )
    return tuple(answers), n_modelled


def believable(
    predictions: Frame, by_roofs: Sequence[str], findings: Sequence[Finding], wanted: Wanted
) -> tuple[Frame, Mapping[tuple[str, str], str]]:
    """The predictions to decide by, and by device and network why nothing is recommended.

    ``by_roofs``: ids of the scores that roofs predict. An impossible energy counts as unknown if
    the request may fall back to the least time and does not limit energy or power.
    """

    def refused(*, needs_energy: bool) -> Mapping[tuple[str, str], str]:
        return refusals(findings, predictions, by_roofs, needs_energy=needs_energy)

    is_limited = wanted.max_energy_j is not None or wanted.max_power_w is not None
    if wanted.falls_back and not is_limited:
        by_time, by_any = refused(needs_energy=False), refused(needs_energy=True)
        by_energy = {key: why for key, why in by_any.items() if key not in by_time}
        return without_energy(predictions, by_energy), by_time
    needs_energy = is_limited or wanted.minimise != "latency"
    return predictions, refused(needs_energy=needs_energy)


def batch(
    request: PredictionRequest | Networks,
    *,
    runs: Runs | None = None,
    highest_only: bool = False,
    dask: str | None = None,
    reporter: Reporter = SILENT,
) -> Frame:
    """Predict latency, throughput and energy of networks over batch sizes.

    ``request``: networks, or a request; its batches are 1 to 64 by default. ``runs``: folders of
    runs, instead of the request's. ``highest_only``: only the highest mode of each device.
    ``dask``: address of a Dask scheduler. Returns a frame with a row for each prediction, in s, J
    and W. Raises as ``predict``, and ClusterError.
    """
    request = as_request(request, runs)
    request = replace(request, batches=request.batches or AUTO_BATCHES)
    models, _, parts = predicted_parts(
        _batch_some, request, lambda _: highest_only, dask=dask, reporter=reporter
    )
    check_models(models, {name for _, names, _ in parts for name in names}, reporter)
    for line in dict.fromkeys(line for _, _, lines in parts for line in lines):
        reporter.note(f"note: {line}")
    return batches.joined([rows for rows, _, _ in parts])


def _batch_some(
    network: str | None, shared: tuple[Basis, bool]
) -> tuple[tuple[Frame, tuple[str, ...], tuple[str, ...]], int]:
    """The rows of one network or all, their names, notes on unknown modes; the row count."""
    basis, highest_only = shared
    predictions, modes = basis.predictions(network), basis.modes
    rows = batches.batch_table(predictions, basis.scores, basis.observations)
    rows = with_remarks(rows)
    names = tuple(rows["network"].unique().to_list())
    if highest_only:
        rows, modes = batches.highest_only(rows, modes), batches.highest_modes(modes)
    return (rows, names, unknown_modes_notes(predictions, modes)), predictions.height


def _with_commands(
    answer: Recommendation,
    models: Models,
    modes: Frame,
    request: PredictionRequest,
    elsewhere: Callable[[str], tuple[str, ...]],
) -> Answered:
    choice = answer.choice
    if choice is None:
        return Answered(recommendation=answer, measurement=None, is_here=False)
    commands, unknown = mode_commands(choice.mode, answer, models, modes, request.board)
    machine = models.machines.get(answer.device)
    decisive, notes = answer.measure_next, answer.notes
    measurement, is_here = None, False
    if decisive is not None:
        is_here = bool(local_devices((answer.device,), request.board, models.machines))
        request = request if is_here else replace(request, board=None)
        measurement = find_measurement(decisive.candidate, models.dataset, machine, request)
        if measurement is not None:
            away = elsewhere(answer.device)
            at = " --host user@board" if away and measurement.program is None else ""
            command = f"{measurement.command}{at}"
            decisive = msgspec.structs.replace(decisive, command=command, unknown={})
            is_here, notes = is_here and not away, (*away, *notes)
    answer = msgspec.structs.replace(
        answer, commands=commands, measure_next=decisive, notes=notes, unknown=unknown
    )
    return Answered(recommendation=answer, measurement=measurement, is_here=is_here)


def _defaults(models: Models, default: str | None, board: Path | None) -> dict[str, str]:
    """The mode that each device starts in: ``default``, or the default of this board."""
    if default is not None:
        return _named_default(models, default)
    defaults: dict[str, str] = {}
    for device in models.devices:
        machine = models.machines.get(device)
        root = None if machine is None or machine.kind != "jetson" else root_of(machine, board)
        if root is not None:
            with contextlib.suppress(MansardError):  # a board that cannot be read has no default
                defaults |= {device: name} if (name := list_board(root).default) else {}
    return defaults


def _named_default(models: Models, default: str) -> dict[str, str]:
    """By device the mode that is called ``default``, in any spelling; raises UsageError."""
    defaults: dict[str, str] = {}
    for device in models.devices:
        known = [KnownMode(name) for name in models.modes_of(device)["mode"].to_list()]
        match = find_mode(KnownMode(default), known, boards_called(device))
        defaults |= {} if match is None else {device: match.name}
    if not defaults:
        shown = ", ".join(models.mode_names()[:8])
        raise UsageError(f"no mode is called {default!r}", fix=f"there are {shown}")
    return defaults
