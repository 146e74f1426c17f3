"""Networks and programs of which no run counts: when they ran, and why none is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, display_text, first_names, network_names
from mansard.analytics.models.scaling.observations import network_measurements
from mansard.analytics.models.scaling.repeats import key_of
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.records import Measurement, ProgramRun


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """Runs of one network or program, all of which were disturbed or failed.

    ``newest``: the last of them. ``modes``: each mode in which one ran.
    """

    name: str
    newest: Measurement | ProgramRun
    modes: tuple[str, ...]

    def sentence(self) -> str:
        """``detector was measured in 15W (2026-01-02 03:04 UTC), but disturbed: …``."""
        has_failed = isinstance(self.newest, Measurement) and self.newest.failure is not None
        when = self.newest.started_utc[:16].replace("T", " ")
        modes = first_names([display_name(mode) for mode in self.modes])
        return (
            f"{self.name} was measured in {modes} ({when} UTC), but "
            f"{'failed' if has_failed else 'disturbed'}: {display_text(why_unused(self.newest))}"
        )


def set_aside(dataset: Dataset) -> dict[str, SetAside]:
    """By name the networks and programs that ran, but of which no run counts."""
    modes = {run.run_id: run.mode_read_back.name for run in dataset.workload_manifests}
    groups: dict[str, list[Measurement | ProgramRun]] = {}
    for name, row in _named_rows(dataset):
        groups.setdefault(name, []).append(row)
    return {
        name: SetAside(
            name=name,
            newest=max(rows, key=lambda row: row.started_utc),
            modes=tuple(dict.fromkeys(modes[row.run_id] for row in rows)),
        )
        for name, rows in groups.items()
        if all(map(why_unused, rows))
    }


def _named_rows(dataset: Dataset) -> Iterator[tuple[str, Measurement | ProgramRun]]:
    names = network_names(dataset)
    for row in network_measurements(dataset):
        yield names[key_of(row)], row
    for program in dataset.programs:
        yield display_name(program.workload), program
