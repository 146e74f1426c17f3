"""The rows of runs, read from their folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mansard.core.records import Manifest, Record
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.measuring.plan import RunPlan

if TYPE_CHECKING:
    from mansard.measuring.kind import MeasurementKind

RowT = TypeVar("RowT", bound=Record)
PlanT = TypeVar("PlanT", bound=RunPlan)


def rows_of(
    runs: Path, run_ids: Iterable[str], kind: MeasurementKind[PlanT, RowT]
) -> list[tuple[Manifest, RowT]]:
    """The rows of runs of ``kind`` with their manifests, in the order of ``run_ids``."""
    manifests = [
        read_document(runs / run_id / "manifest.json", Manifest, runs) for run_id in run_ids
    ]
    return [
        (manifest, row)
        for manifest in manifests
        if manifest.kind == kind.name
        for row in read_rows(runs / manifest.run_id / kind.rows_name, kind.row_type, runs).rows
    ]


def start_key(row_of_run: tuple[Manifest, Record]) -> tuple[str, str]:
    """The start of a row's run, and its id: a key to sort rows by."""
    manifest, _ = row_of_run
    return manifest.started_utc, manifest.run_id
