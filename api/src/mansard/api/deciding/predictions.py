"""Predictions of networks in power modes, from runs that were measured or imported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mansard.analytics.data.names import stage_of
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.board_transfer import called
from mansard.analytics.models.predict.models import Models, find_models
from mansard.analytics.models.predict.prediction import (
    Basis,
    NetworkSelection,
    Prediction,
    basis_of,
    check_any,
    predict_all,
)
from mansard.analytics.models.sanity.checks import find_faults
from mansard.analytics.models.scaling.observations import notes_on_repeats
from mansard.analytics.models.scaling.set_aside import set_aside
from mansard.api.deciding.candidate_modes import find_modes, require_local
from mansard.api.deciding.measuring_words import again_command
from mansard.api.inputs import Networks, Runs, as_list
from mansard.api.parallel import Work, do_work
from mansard.api.scores import note_scores, score_batches
from mansard.core.errors import ClusterError, InputError, MansardError, UsageError
from mansard.core.formats.onnx import model_files, model_name
from mansard.core.precision import parse_precision
from mansard.device.system import board_root
from mansard.estimator import Given, Settings, zoo
from mansard.estimator.decoding import USUAL_STAGES, Stage, stage_name
from mansard.estimator.scoring import is_language_model
from mansard.estimator.summary import too_large_note
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.decisions.modes import ModeFrame
    from mansard.analytics.models.sanity.finding import Finding
    from mansard.core.records import ModelScore, Phase

Shared = TypeVar("Shared")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class NetworkRequest:
    """An ONNX file (or a folder of them), or the name of one of the zoo or that was measured.

    ``batches`` and ``precisions``: those of the request where there are none.
    """

    name: str
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()

    def display_name(self) -> str:
        """How predictions call it: a file by its stem."""
        return self.name if model_files(self.name) is None else model_name(Path(self.name))


@dataclass(frozen=True, kw_only=True)
class PredictionRequest:
    """Which networks, and in which modes. What is empty or None is left open.

    ``runs``: folders of runs, or merged datasets (folders or URLs). ``networks``: none means
    all that the runs have scores or times of, of which ``batches`` and ``precisions`` keep
    some; networks that are named have batch 1 and the file's own precision where neither they
    nor the request say another. ``dims``: sizes of named dimensions. ``modes``: of the runs,
    or as ``find_modes`` takes them; None means those that were measured. ``device``: part of
    its name. ``board``: root folder of the board that knows the modes. ``allow_mixed``: combine
    runs of one device by different versions, and identical boards.
    ``calibrate``: scale predictions to the measured networks, named or not. ``prompts`` and
    ``contexts``: tokens that a language model reads in prefill, and that are cached when it makes
    the next; each stage is a network (``llama [decode 512]``). None means those that were measured
    of it, else 512.
    """

    runs: tuple[str, ...] = ("runs",)
    networks: tuple[NetworkRequest, ...] = ()
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    phase: Phase = "inference"
    modes: str | None = None
    device: str | None = None
    board: Path | None = None
    allow_mixed: bool = False
    calibrate: bool = False
    prompts: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Those of ``prompts`` and ``contexts``; the usual one of what is not said. Empty: auto."""
        if not self.prompts and not self.contexts:
            return ()
        prefill, decode = USUAL_STAGES
        prefills = tuple(Stage(n, 0) for n in self.prompts) or (prefill,)
        return (*prefills, *(tuple(Stage(1, n) for n in self.contexts) or (decode,)))


def as_request(
    request: PredictionRequest | Networks, runs: Runs | None = None
) -> PredictionRequest:
    """``request``, or one for networks with all defaults; ``runs`` replace those of the request."""
    if not isinstance(request, PredictionRequest):
        networks = tuple(NetworkRequest(name=str(model)) for model in as_list(request))
        request = PredictionRequest(networks=networks)
    if runs is not None:
        request = replace(request, runs=tuple(map(str, as_list(runs))))
    return request


def predict(
    request: PredictionRequest | Networks, reporter: Reporter = SILENT, *, runs: Runs | None = None
) -> Prediction:
    """Predict latency, energy and power of networks in power modes.

    ``request``: networks, or a request. ``runs``: folders of runs, instead of the request's.
    Returns the frame ``predictions``, in s, J and W with their 95 % bounds, and its sources.
    Raises as reading and scoring do, UsageError for unknown networks, modes or devices, and
    InputError if nothing can be predicted.

    >>> import mansard as m
    >>> prediction = m.predict("seen", runs="published")
    >>> prediction
    Prediction(9 rows, networks=1, modes=9)
    >>> best = prediction.to_frame().sort("latency_s").row(0, named=True)
    >>> best["mode"], best["source"]
    ('gpu1200-emc3200', 'published')
    """
    asked = as_request(request, runs)
    models, basis = find_basis(asked, reporter)
    prediction = predict_all(models, basis)
    _check_any(models, asked, is_any=not prediction.predictions.is_empty())
    for line in prediction.notes:
        reporter.note(line)
    return prediction


def find_basis(request: PredictionRequest, reporter: Reporter = SILENT) -> tuple[Models, Basis]:
    """What ``predict`` rests on, of which networks can be predicted one by one; raises as that."""
    board_root(request.board)  # a root that is no folder is an error, needed or not
    models = find_models(open_runs(request.runs, allow_mixed=request.allow_mixed), request.device)
    for line in (*models.dataset.notes, *models.mode_notes):
        reporter.note(f"note: {line}")
    modes = None if request.modes is None else _asked_modes(request, models, reporter)
    known = models.observed_networks()
    if request.calibrate:  # then times are carried over from boards where they are recorded
        recorded = models.recordings
        asked = [network.name for network in request.networks]
        known = known.union(name for name in asked if not called(recorded, name).is_empty())
    unknown = [network for network in request.networks if _is_unknown(network.name, known)]
    if unknown:
        _refuse_set_aside(models, request, unknown, "or name its ONNX file")
    networks = _select_networks(request, known, reporter)
    _note_too_large(models, networks, reporter)
    names = {network.name for network in networks if not network.scores}
    scored = models.dataset.scores
    for line in notes_on_repeats(models.dataset, {network.name for network in networks}):
        reporter.note(f"note: {line}")
    note_scores([score for score in scored if names & {score.model, None}], reporter)  # None: all
    scores = _score_measured(models, request, reporter) if request.calibrate else ()
    staged = [score for network in networks for score in network.scores or ()]
    precisions = {s.model: s.precision for s in (*scores, *staged) if stage_of(s.model)}
    models = models.with_precisions(precisions)
    return models, basis_of(
        models, networks, modes, calibrate=request.calibrate, measured_scores=scores
    )


def _asked_modes(request: PredictionRequest, models: Models, reporter: Reporter) -> list[ModeFrame]:
    """Those of each device that ``request.modes`` names; raises as ``find_modes``.

    Of several devices one may lack a mode that another has, which a note says.
    """
    frames: list[ModeFrame] = []
    errors: list[MansardError] = []
    local = require_local(models.devices, request.board, models.machines)
    for device in models.devices:
        if device not in local:
            reporter.note(f"note: {device} is left out: its modes are not those of --board")
            continue
        try:
            candidates = find_modes(
                request.modes or "", request.board, device, models.modes_of(device)
            )
        except MansardError as error:
            errors.append(error)
            reporter.note(f"note: {device}: {error}")
            continue
        frames.append(candidates.modes)
        for line in candidates.notes:
            reporter.note(f"note: {device}: {line}")
    if not frames:
        raise errors[0]
    return frames


def predicted_parts(
    function: Callable[[str | None, tuple[Basis, Shared]], tuple[Answer, int]],
    request: PredictionRequest,
    shared: Callable[[Models], Shared],
    *,
    dask: str | None,
    reporter: Reporter,
) -> tuple[Models, Basis, list[Answer]]:
    """What ``function`` makes of predictions: of all networks, or of each where they are many, or
    ``dask`` a cluster.

    It gets the name of a network, None for all, the basis, and ``shared`` of the models; it returns
    how many rows were predicted too. Raises as ``predict`` and
    ``parallel.do_work``, and reports as ``predict``.
    """
    models, basis = find_basis(request, reporter)
    work: Work[str | None, tuple[Answer, int]] = Work(
        function=function,
        title="Predicting",
        name=lambda network: network or "",
        lost=_lost,
        shared=(basis, shared(models)),
    )
    parts = basis.parts(each_network=dask is not None)
    answers = do_work(work, parts, jobs=None if dask else 1, dask=dask, reporter=reporter)
    _check_any(models, request, is_any=any(n_rows for _, n_rows in answers))
    for line in basis.notes:
        reporter.note(line)
    return models, basis, [answer for answer, _ in answers]


def _check_any(models: Models, request: PredictionRequest, *, is_any: bool) -> None:
    """Raises InputError if nothing is predicted; it names runs that do not count."""
    if not is_any:
        _refuse_set_aside(models, request, request.networks, "or predict from roofs: mansard bench")
    check_any(models.dataset, is_any=is_any)


def _refuse_set_aside(
    models: Models, request: PredictionRequest, networks: Sequence[NetworkRequest], other_way: str
) -> None:
    """Raises InputError for the first of ``networks`` (none: of all) of which no run counts."""
    notes = set_aside_notes(models, request)
    named = [network.display_name() for network in networks] or list(notes)
    for name in named:
        if name in notes:
            sentence, command = notes[name]
            raise InputError(
                sentence,
                where=", ".join(models.dataset.locations),
                fix=f"close other programs and measure again: {command}; {other_way}",
            )


def set_aside_notes(models: Models, request: PredictionRequest) -> dict[str, tuple[str, str]]:
    """By name of each network and program without a usable run: why, and a command to repeat it."""
    files = {network.display_name(): network.name for network in request.networks}
    return {
        name: (
            aside.sentence(),
            again_command(aside, files.get(name, name), request.runs, request.board),
        )
        for name, aside in set_aside(models.dataset).items()
    }


def _lost(network: str | None) -> NoReturn:
    raise ClusterError(
        f"each process that predicted {network} was killed",
        fix="memory may be short: name fewer modes or batches, or give workers more",
    )


def check(prediction: Prediction, reporter: Reporter) -> tuple[Finding, ...]:
    """What cannot be true of the measurements behind ``prediction``, reported and returned."""
    networks = prediction.predictions["network"].unique().to_list()
    return check_models(prediction.models, networks, reporter)


def check_models(
    models: Models, networks: Collection[str], reporter: Reporter
) -> tuple[Finding, ...]:
    """What cannot be true of measurements of ``networks``, reported and returned."""
    findings = [fault for fault in find_faults(models) if fault.is_about(networks)]
    for finding in findings:
        reporter.note(f"{'warning' if finding.is_serious else 'note'}: {finding.text}")
    return tuple(findings)


def _note_too_large(
    models: Models, networks: Sequence[NetworkSelection], reporter: Reporter
) -> None:
    """Say of each network, at its smallest, on which boards it cannot fit."""
    for network in networks:
        smallest = min(network.scores or (), key=lambda score: score.batch or 0, default=None)
        for device in models.devices if smallest is not None else ():
            machine = models.machines.get(device)
            if smallest is not None and machine is not None and machine.kind != "gpu":
                line = too_large_note(smallest, machine.memory_bytes, device)
                if line is not None:
                    reporter.note(f"note: {line}")


def _select_networks(
    request: PredictionRequest, known: Collection[str], reporter: Reporter
) -> list[NetworkSelection]:
    """The networks that were asked for, with their scores.

    Files and networks of the zoo are scored; a name that is neither has to be ``known`` from
    its times. Where no network was named, all that the runs have scores or times of. Raises
    ModelError for a file that cannot be scored at all, UsageError for an unknown name.
    """
    phase = request.phase
    _check_dims(request, known)
    if not request.networks:
        every = NetworkSelection(
            batches=request.batches, precisions=request.precisions, phase=phase
        )
        return [every]
    selections = []
    for network in request.networks:
        batches = network.batches or request.batches
        precisions = network.precisions or request.precisions
        for name, stage, models in _cases(network, request.stages, known):
            scores = [
                score
                for model in models
                for precision in precisions or (None,)
                for score in score_batches(
                    model, batches or (None,), _settings(request, precision), reporter, stage
                )
            ]
            selections.append(
                NetworkSelection(
                    name=name, scores=scores, batches=batches, precisions=precisions, phase=phase
                )
            )
    if request.stages and not any(stage_of(one.name or "") for one in selections):
        raise UsageError(
            "--prompt and --context are for language models", fix="leave them out, or name one"
        )
    return selections


def _cases(
    network: NetworkRequest, stages: Sequence[Stage], known: Collection[str]
) -> Iterator[tuple[str, Stage | None, Sequence[Path | str]]]:
    """The name of each network to predict, its stage, and the models to score.

    A language model is one network in each of ``stages``; without any, in those that are ``known``
    of it, else in the usual ones.
    """
    name = network.display_name()
    models: Sequence[Path | str] | None = model_files(network.name)
    measured = [one for one in sorted(known) if (stage_of(one) or [""])[0] == name]
    if _is_recorded(network.name, known):
        models = ()  # its times are known, and nothing else
    models = (network.name,) if models is None else models
    if not any(map(is_language_model, models)):
        if measured and not stages and models == (network.name,):
            yield from ((one, None, ()) for one in measured)
        else:
            yield name, None, models
        return
    of_known = tuple(_stage(one) for one in measured)
    for stage in tuple(stages) or of_known or USUAL_STAGES:
        yield stage_name(name, stage), stage, models


def _stage(network: str) -> Stage:
    """The stage that the name of a network says."""
    _, stage, n_tokens = stage_of(network) or ("", "decode", 0)
    return Stage(n_tokens, 0) if stage == "prefill" else Stage(1, n_tokens)


def _score_measured(
    models: Models, request: PredictionRequest, reporter: Reporter
) -> list[ModelScore]:
    """Scores of measured networks of the zoo, as they were measured, whether named or not.

    Of other networks only the scores count that the runs have.
    """
    columns = ("network", "batch", "precision", "phase")
    measured = models.of_devices(models.observations).select(columns).unique(maintain_order=True)
    scores: list[ModelScore] = []
    for network, batch, precision, phase in measured.iter_rows():
        if not batch or phase != request.phase:
            continue
        if network in zoo.names() and precision:
            scores += score_batches(network, (batch,), _settings(request, precision), reporter)
        elif (staged := stage_of(network)) is not None and is_language_model(staged[0]):
            settings, stage = _settings(request, None), _stage(network)
            scores += score_batches(staged[0], (batch,), settings, reporter, stage)
    return scores


def _settings(request: PredictionRequest, precision: str | None) -> Settings:
    """How networks are scored; operators that are not known count as unknown, which is said."""
    counted = None if precision is None else parse_precision(precision)
    return Settings(Given(dims=request.dims), counted, request.phase, allow_unknown=True)


def _is_recorded(name: str, known: Collection[str]) -> bool:
    """Whether times are all there is of a network: it is neither a file nor of the zoo."""
    return model_files(name) is None and name in known and name not in zoo.names()


def _is_unknown(name: str, known: Collection[str]) -> bool:
    """Whether nothing is called ``name``: no file, network of the zoo, or network with times."""
    return model_files(name) is None and name not in known and not zoo.has(name)


def _check_dims(request: PredictionRequest, known: Collection[str]) -> None:
    """Raises UsageError for dimensions of networks that are not scored, or that none of them has.

    Files say themselves what they do not know.
    """
    if request.dims and all(_is_recorded(one.name, known) for one in request.networks):
        raise UsageError(
            "--dim has no effect: times in the runs are predicted as they are",
            fix="name an ONNX file, or a network of the zoo",
        )
    names = [one.name for one in request.networks if one.name in zoo.names()]
    if len(names) < len(request.networks):
        return
    known = {dim for name in names for dim, _ in zoo.entry(name).dims} - {"batch"}
    unknown_dims = sorted(request.dims.keys() - known)
    if unknown_dims:
        there = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"--dim {unknown_dims[0]!r} is of no network here",
            fix=f"there is {there}; the batch is given with --batch",
        )
