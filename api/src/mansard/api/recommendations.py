"""Which mode, batch size and precision a network should run in, and the commands that set it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.predictions import Network, Question, predict
from mansard.api.reporter import SILENT, Reporter
from mansard.api.workloads import read_workload
from mansard.core.errors import MansardError, UsageError
from mansard.device.mode_commands import commands_for, root_of

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
    from mansard.analytics.decide.records import Recommendation, Wanted
    from mansard.analytics.decide.time_sharing import MixAnswer
    from mansard.analytics.predict.models import Models
    from mansard.core.records import MachineIdentity, Manifest

# What "auto" tries: powers of two, as throughput changes with the ratio of batch sizes.
AUTO_BATCHES = (1, 2, 4, 8, 16, 32, 64)


def recommend(
    question: Question,
    wanted: Wanted,
    default: str | None = None,
    reporter: Reporter = SILENT,
) -> tuple[Recommendation, ...]:
    """The best mode for each network on each device, from what was measured.

    Measures and sets nothing. Says what the mode saves, which others were near and why they
    lost, how likely the limits of ``wanted`` hold, and the commands that set the mode and undo
    it. ``default``: the mode that the board starts in, to compare with; None: as the board at
    hand says. Where no mode keeps the limits, the nearest are in the answer. Raises as
    ``predict`` does, and UsageError for an unknown ``default``.
    """
    from mansard.analytics.decide.recommend import recommend_each

    predicted = predict(question, reporter)
    defaults = _defaults(predicted.models, default, question.board)
    return tuple(
        _with_commands(each, predicted.models, question.board)
        for each in recommend_each(predicted.predictions, predicted.modes, wanted, defaults)
    )


def recommend_workload(
    question: Question, wanted: Wanted, workload: Path, reporter: Reporter = SILENT
) -> tuple[MixAnswer, ...]:
    """One mode, or modes in turn, for all networks of a workload, on each device.

    ``workload``: TOML file of networks with rates, see ``read_workload``. Raises as ``predict``
    does, and InputError for a file that is no workload.
    """
    from mansard.analytics.decide.time_sharing import Mix, Task
    from mansard.analytics.decide.workload import plan_mixes

    found = read_workload(workload)
    networks = tuple(
        Network(
            name=line.model,
            batches=() if line.batch is None else (line.batch,),
            precisions=() if line.precision is None else (line.precision,),
        )
        for line in found.lines
    )
    batches = question.batches or AUTO_BATCHES
    predicted = predict(replace(question, networks=networks, batches=batches), reporter)
    tasks = tuple(
        Task(
            network=network.display_name(),
            rate_per_s=line.rate_per_s,
            batch=line.batch,
            precision=line.precision,
            max_latency_s=line.max_latency_s,
        )
        for line, network in zip(found.lines, networks, strict=True)
    )
    mix = Mix(tasks=tasks, switch_s=found.switch_s, period_s=found.period_s)
    return tuple(plan_mixes(predicted.predictions, mix, wanted, predicted.coefficients))


def batch(question: Question, *, highest_only: bool = False, reporter: Reporter = SILENT) -> Frame:
    """Time, throughput and energy of networks over batch sizes, 1 to 64 by default.

    One row of ``analytics.decide.batches.BATCH_SCHEMA`` for each prediction.
    ``highest_only``: in the highest mode of each device alone. Raises as ``predict`` does.
    """
    from mansard.analytics.decide import batches

    predicted = predict(replace(question, batches=question.batches or AUTO_BATCHES), reporter)
    rows = batches.batch_table(predicted.predictions, predicted.scores)
    return batches.highest_only(rows, predicted.modes) if highest_only else rows


def _with_commands(found: Recommendation, models: Models, board: Path | None) -> Recommendation:
    if found.choice is None:
        return found
    machine = _machine_of(found.device, models.dataset.manifests)
    root = None if machine is None else root_of(machine, board)
    commands, why_not = commands_for(found.choice.mode, found.device, machine, root)
    unknown = {name: why for name, why in found.unknown.items() if name != "commands"}
    if commands is None:
        unknown["commands"] = why_not
    return msgspec.structs.replace(found, commands=commands, unknown=unknown)


def _defaults(models: Models, default: str | None, board: Path | None) -> dict[str, str]:
    """The mode that each device starts in: the one that was named, or what the board says."""
    from mansard.device.nvpmodel.listing import list_board

    if default is not None:
        names = models.mode_names()
        if default not in names:
            shown = ", ".join(names[:8])
            raise UsageError(f"no mode is called {default!r}", fix=f"there are {shown}")
        return dict.fromkeys(models.devices, default)
    found: dict[str, str] = {}
    for device in models.devices:
        machine = _machine_of(device, models.dataset.manifests)
        root = None if machine is None or machine.kind != "jetson" else root_of(machine, board)
        if root is not None:
            with contextlib.suppress(MansardError):  # a board that says nothing has no default
                found |= {device: name} if (name := list_board(root).default) else {}
    return found


def _machine_of(device: str, manifests: Sequence[Manifest]) -> MachineIdentity | None:
    """The machine that ``device`` is a processor of, by the labels of the runs."""
    from mansard.analytics.data.names import device_labels

    labels = device_labels(manifests)
    machines = [one.machine for one in manifests if labels[one.run_id] == device]
    return machines[-1] if machines else None
