"""A made-up room whose trials read files: says what it read, and what else it could do there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from mansard.core.hashing import file_hash
from mansard.core.records import Record
from mansard.core.records.base import Schema
from mansard.measuring.instruments import Instruments
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.plan import PlannedTrial, RunPlan


class Reading(PlannedTrial, frozen=True, kw_only=True):
    """Which file is read."""

    file: str

    @property
    def title(self) -> str:
        return f"read {self.file}"


class ReadingPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of readings."""

    schema: ClassVar[Schema] = Schema("reading-plan", 1)
    kind: ClassVar[str] = "tests.containers.reading_room:READINGS"
    trials: tuple[Reading, ...]


class ReadingRow(Record, frozen=True, kw_only=True):
    """What a file had, and what the process may do."""

    schema: ClassVar[Schema] = Schema("reading", 1)
    run_id: str
    trial_id: str
    file: str
    file_hash: str
    n_bytes: int
    there: tuple[str, ...]  # in the folder of files
    refusals: dict[str, str]  # what was tried, and why it failed
    capabilities: dict[str, int]
    mount_options: str


@contextmanager
def _open(plan: ReadingPlan) -> Iterator[Opened[ReadingRow]]:
    def measure(spec: Reading, instruments: Instruments) -> ReadingRow:
        assert instruments.files is not None
        folder, path = instruments.files, instruments.files / spec.file
        data = path.read_bytes()
        return ReadingRow(
            run_id=plan.run_id,
            trial_id=spec.trial_id,
            file=spec.file,
            file_hash=file_hash(data),
            n_bytes=len(data),
            there=tuple(sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))),
            refusals=_refusals(folder, path),
            capabilities=_capabilities(),
            mount_options=_mount_options(folder),
        )

    yield Opened(measure, None, "reading needs no GPU")


def _refusals(folder: Path, path: Path) -> dict[str, str]:
    found = {}

    def overwrite() -> None:
        path.write_bytes(b"x")

    def add() -> None:
        (folder / "new").touch()

    def change() -> None:
        path.chmod(0o777)

    def remove() -> None:
        path.unlink()

    for attempt in (overwrite, add, change, remove):
        name = attempt.__name__
        try:
            attempt()
        except OSError as error:
            found[name] = error.strerror or ""
        else:
            found[name] = ""
    return found


def _capabilities() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if line.startswith("Cap"))
    return {name: int(value, 16) for name, value in fields.items()}


def _mount_options(folder: Path) -> str:
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return next((fields[5] for fields in lines if fields[4] == str(folder)), "")


READINGS = MeasurementKind("readings", ReadingPlan, ReadingRow, _open, rows_name="readings.jsonl")
