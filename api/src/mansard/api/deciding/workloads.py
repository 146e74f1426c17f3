"""One mode, or modes in turn, for networks with rates that share a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.analytics.data.accuracies import by_precision, network_accuracies
from mansard.analytics.data.published.store import devices_of_rates
from mansard.analytics.decisions.battery import Battery, battery_life
from mansard.analytics.decisions.limits import without_drops
from mansard.analytics.decisions.mix_records import IdlePower, Mix, MixAnswer, Task
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.workload import constant_powers, decide_mixes
from mansard.analytics.models.predict.measured import prefer_measured
from mansard.analytics.pages.words.comparisons import drop_notes
from mansard.analytics.pages.words.mixes import mix_in_words
from mansard.api.deciding.measuring_words import mode_commands
from mansard.api.deciding.predictions import NetworkRequest, PredictionRequest, check, predict
from mansard.api.deciding.published_boards import with_published
from mansard.api.deciding.recommendations import AUTO_BATCHES, believable
from mansard.api.deciding.workload_files import Workload, WorkloadNetwork, read_workload
from mansard.core.errors import InputError, UsageError
from mansard.core.hardware import KnownMode, boards_called, find_mode
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
    from mansard.analytics.models.predict.models import Models
    from mansard.analytics.models.predict.prediction import Prediction
    from mansard.core.units import Interval


def recommend_workload(
    request: PredictionRequest,
    wanted: Wanted,
    workload: Path,
    reporter: Reporter = SILENT,
    *,
    battery: Battery | None = None,
) -> tuple[MixAnswer, ...]:
    """One mode, or modes in turn, for all networks of a workload, on each device.

    ``workload``: TOML file of networks with rates, see ``read_workload``. ``battery``: the answer
    says how long it lasts. A network is done one item at a time, unless the file or the request
    has batches, or the file a ``max_latency``, which includes the wait for a batch to fill. Without
    runs, a ``device`` that names a board is predicted from published figures, as in ``recommend``.
    Raises as ``predict``, and InputError for a file that is no workload.
    """
    if battery is not None:
        battery.check()
    workload_file = read_workload(workload)
    _check_effects(request, workload_file, workload)
    networks = tuple(_network(line, request) for line in workload_file.lines)
    mix = _mix(workload_file, networks, request)
    asked = replace(request, networks=networks, batches=())
    with with_published(asked, reporter) as asked:
        predicted = predict(asked, reporter)
        by_roofs = predicted.scores["score_id"].to_list()
        predictions, refused = believable(
            prefer_measured(predicted), by_roofs, check(predicted, reporter), wanted
        )
        predictions = _without_drops(predicted, predictions, wanted, reporter)
        idle = _idle_powers(predicted, workload_file.idle, workload)
        unbounded = devices_of_rates(predicted.models.published)
        decisions = decide_mixes(
            predictions, mix, wanted, idle, refused, predicted.modes, unbounded=unbounded
        )
    answers = (
        _mix_with_commands(mix_in_words(decision), predicted.models, predicted.modes, request.board)
        for decision in decisions
    )
    return tuple(_with_battery(answer, battery) for answer in answers)


def _check_effects(request: PredictionRequest, workload: Workload, path: Path) -> None:
    """Raise UsageError for an option that no network of the workload leaves open."""
    for option, values, name in (
        ("--batch", request.batches, "batch"),
        ("--precision", request.precisions, "precision"),
    ):
        if values and all(getattr(line, name) is not None for line in workload.lines):
            raise UsageError(
                f"{option} has no effect: each network of the workload has its {name}",
                where=str(path),
                fix=f"leave {option} out, or the {name} of a network",
            )


def _network(line: WorkloadNetwork, request: PredictionRequest) -> NetworkRequest:
    """The network of a line, with the batches to predict."""
    batches = request.batches if line.batch is None else (line.batch,)
    if not batches and line.max_latency_s is not None:
        batches = AUTO_BATCHES
    precisions = () if line.precision is None else (line.precision,)
    return NetworkRequest(name=line.model, batches=batches, precisions=precisions)


def _mix(workload: Workload, networks: Sequence[NetworkRequest], request: PredictionRequest) -> Mix:
    """The networks as predictions call them, with their rates and limits."""
    tasks = tuple(
        Task(
            network=network.display_name(),
            rate_per_s=line.rate_per_s,
            batches=request.batches if line.batch is None else (line.batch,),
            precision=line.precision,
            max_latency_s=line.max_latency_s,
        )
        for line, network in zip(workload.lines, networks, strict=True)
    )
    return Mix(tasks=tasks, switch_s=workload.switch_s, period_s=workload.period_s)


def _idle_powers(
    predicted: Prediction, given: Interval | Mapping[str, Interval] | None, path: Path
) -> dict[str, dict[str, IdlePower]]:
    """By device and mode: the idle power of the workload file, else the constant power.

    Raises InputError for a mode of the file that no device has.
    """
    powers = constant_powers(predicted.coefficients)
    if given is None:
        return powers
    unmatched = set() if not isinstance(given, Mapping) else set(given)
    for device in predicted.models.devices:
        modes = predicted.modes.filter(device=device)["mode"].to_list()
        known = [*modes, *predicted.models.modes_of(device)["mode"].to_list()]
        of_device = powers.setdefault(device, {})
        if not isinstance(given, Mapping):
            of_device |= dict.fromkeys(modes, _given(given))
            continue
        for name, power in given.items():
            match = find_mode(KnownMode(name), map(KnownMode, known), boards_called(device))
            if match is not None:
                of_device[match.name] = _given(power)
            # A mode of the board that is not among those to choose from is no mistake.
            if match is not None or any(board.find(name) for board in boards_called(device)):
                unmatched.discard(name)
    if unmatched:
        shown = ", ".join(predicted.models.mode_names()[:8])
        what = f"[idle] has the mode {min(unmatched)!r}, which is unknown"
        raise InputError(what, where=str(path), fix=f"there are {shown}")
    return powers


def _given(power: Interval) -> IdlePower:
    low, high = power.ends
    return IdlePower(value_w=power.value, low_w=low, high_w=high, source="given")


def _with_battery(answer: MixAnswer, battery: Battery | None) -> MixAnswer:
    """``answer`` with how long ``battery`` lasts."""
    if battery is None:
        return answer
    unknown = {name: why for name, why in answer.unknown.items() if name != "battery"}
    life = battery_life(battery, answer.plan)
    return msgspec.structs.replace(answer, battery=life, unknown=unknown)


def _mix_with_commands(
    answer: MixAnswer, models: Models, modes: Frame, board: Path | None
) -> MixAnswer:
    """``answer`` with the commands of its single mode, if known, where no schedule is better."""
    if answer.one_mode is None or answer.schedule is not None or answer.one_mode.roofed():
        return answer
    (mode,) = {share.mode for share in answer.one_mode.shares}
    commands, unknown = mode_commands(mode, answer, models, modes, board)
    return msgspec.structs.replace(answer, commands=commands, unknown=unknown)


def _without_drops(
    predicted: Prediction, predictions: Frame, wanted: Wanted, reporter: Reporter
) -> Frame:
    """``predictions`` without precisions that may lose too much, which notes name."""
    if wanted.max_drop is None or predictions.is_empty():
        return predictions
    accuracies, frames = network_accuracies(predicted.models.dataset), []
    for rows in predictions.partition_by("device", "network", maintain_order=True):
        device, network = str(rows["device"][0]), str(rows["network"][0])
        known = by_precision(accuracies, device, network, predicted.models.observations)
        allowed, drops = without_drops(rows, wanted, known)
        for line in drop_notes(drops):
            reporter.note(f"note: {network} on {device}: {line}")
        frames.append(allowed)
    joined = frames[0]
    for rows in frames[1:]:
        joined = joined.vstack(rows)
    return joined
