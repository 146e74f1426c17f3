"""What ``mansard recommend`` does: predict, decide, add the commands, print."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.console import note, print_json, print_table
from mansard.cli.recommend_tables import (
    Table,
    mix_tables,
    overview_table,
    recommendation_lines,
    recommendation_tables,
)
from mansard.core.errors import MansardError, UsageError
from mansard.core.text import printable

if TYPE_CHECKING:
    from mansard.analytics.decide.records import Recommendation, Wanted
    from mansard.analytics.predict.models import Models
    from mansard.cli.predicting import Asked
    from mansard.core.records import MachineIdentity, Manifest

# What "auto" tries: powers of two, as throughput changes with the ratio of batch sizes.
AUTO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_MOST_DETAILED = 4  # recommendations that are told in full; more are a table


def parse_batches(texts: Sequence[str] | None) -> tuple[int, ...]:
    """``auto``, or sizes with commas between them; raises UsageError."""
    from mansard.cli.given_options import parse_sizes

    if not texts:
        return ()
    if [text.strip().lower() for text in texts] == ["auto"]:
        return AUTO_BATCHES
    return parse_sizes("--batch", texts)


def parse_precisions(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Precisions with commas between them, each once, by their usual names; raises UsageError."""
    from mansard.core.precision import parse_precision

    parts = [part.strip() for text in texts or () for part in text.split(",")]
    return tuple(dict.fromkeys(parse_precision(part).name for part in parts))


def recommend_models(asked: Asked, wanted: Wanted, default: str | None, *, as_json: bool) -> None:
    """Recommend a mode for each network on each device, and print it."""
    from mansard.analytics.decide.recommend import recommend_each
    from mansard.cli.predicting import predict_asked

    predicted = predict_asked(asked)
    defaults = _defaults(predicted.models, default, asked.board)
    found = [
        _with_commands(each, predicted.models, asked.board)
        for each in recommend_each(predicted.predictions, predicted.modes, wanted, defaults)
    ]
    if as_json:
        print_json({"recommendations": found})
        return
    if len(found) > _MOST_DETAILED:
        _print([overview_table(found)], ())
        note("name a network, or fewer, to see why, the neighbours and the commands")
        return
    for each in found:
        _print(recommendation_tables(each), recommendation_lines(each))


def recommend_mix(asked: Asked, wanted: Wanted, workload: Path, *, as_json: bool) -> None:
    """One mode, or modes in turn, for all networks of a workload, on each device."""
    from mansard.analytics.decide.time_sharing import Mix, Task
    from mansard.analytics.decide.workload import plan_mixes
    from mansard.cli.predicting import Network, predict_asked
    from mansard.cli.predicting_networks import network_name
    from mansard.cli.workload_file import read_workload

    found = read_workload(workload)
    batches = AUTO_BATCHES if asked.batches == () else asked.batches
    networks = tuple(
        Network(
            name=line.model,
            batches=batches if line.batch is None else (line.batch,),
            precisions=asked.precisions if line.precision is None else (line.precision,),
        )
        for line in found.lines
    )
    predicted = predict_asked(replace(asked, networks=networks))
    tasks = tuple(
        Task(
            network=network_name(network),
            rate_per_s=line.rate_per_s,
            batch=line.batch,
            precision=line.precision,
            max_latency_s=line.max_latency_s,
        )
        for line, network in zip(found.lines, networks, strict=True)
    )
    mix = Mix(tasks=tasks, switch_s=found.switch_s, period_s=found.period_s)
    answers = plan_mixes(predicted.predictions, mix, wanted, predicted.coefficients)
    if as_json:
        print_json({"mixes": answers})
        return
    for answer in answers:
        lines = (answer.sentence, *(f"  note: {line}" for line in answer.notes))
        _print(mix_tables(answer), lines)


def _print(tables: Sequence[Table], lines: Iterable[str]) -> None:
    """Tables and lines on stdout, as text; numbers need no no-break spaces on a terminal."""
    for title, columns, rows in tables:
        print_table(_plain(title), columns, [tuple(map(_plain, row)) for row in rows])
    for line in lines:
        print(printable(_plain(line)))  # noqa: T201 - this is the command's data


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def _with_commands(found: Recommendation, models: Models, board: Path | None) -> Recommendation:
    from mansard.device.mode_commands import commands_for, root_of

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
    from mansard.device.mode_commands import root_of
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
