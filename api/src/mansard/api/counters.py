"""Counters of Nsight Compute: exports kept as published rows, and estimates checked by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import UsageError
from mansard.core.text import is_utf8

if TYPE_CHECKING:
    from mansard.analytics.counters.by_kernel import KernelSum


class ExportOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What exports are of, as far as they do not say so. ``compute_capability``: 87 is 8.7.

    ``iterations``: calls of the network in each export, which launch the same kernels.
    """

    citation: str
    device: str
    mode: str = "not said"
    network: str | None = None
    batch: int | None = None
    precision: str | None = None
    phase: Literal["inference", "training"] = "inference"
    iterations: int | None = None
    compute_capability: int | None = None


class ImportedExport(msgspec.Struct, frozen=True):
    """One export that was read: its launches, and its kernels by their share of the time."""

    export: Path
    id: str
    form: str  # which page of Nsight Compute it is
    launches: int
    kernels: tuple[KernelSum, ...]
    notes: tuple[str, ...]
    was_there: bool  # imported before, and not written again
    path: Path


def import_counters(
    exports: Sequence[Path],
    origin: ExportOrigin,
    *,
    runs: Path = Path("runs"),
    reporter: Reporter = SILENT,
) -> tuple[ImportedExport, ...]:
    """Keep exports of Nsight Compute in ``runs``, labelled published.

    The raw page, the details page, a summary by kernel (each as CSV or text), tables of metrics,
    and the sum by kernel of nsys. All are read before one is written. Raises UsageError,
    InputError, StorageError.
    """
    from mansard.analytics.counters.by_kernel import by_kernel
    from mansard.analytics.counters.importing import CounterOrigin
    from mansard.analytics.counters.importing import import_counters as read
    from mansard.analytics.published.store import write_counters

    for word in (origin.device, origin.citation, origin.mode, origin.network or ""):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is no text in UTF-8", fix="write it in UTF-8")
    for name, word in (("device", origin.device), ("citation", origin.citation)):
        if not word.strip():
            raise UsageError(f"the {name} is empty", fix=f"say --{name}")
    own = CounterOrigin(**{name: getattr(origin, name) for name in origin.__struct_fields__})
    found = [(path, read(path, own)) for path in exports]
    written = []
    for path, one in found:
        for line in one.notes:
            reporter.note(f"note: {path}: {line}")
        kept, was_there = write_counters(runs, one.table_id, one.rows)
        n_launches = sum(row.n_launches for row in one.rows)
        sums = by_kernel(one.rows)
        written.append(
            ImportedExport(
                path, one.table_id, one.form, n_launches, sums, one.notes, was_there, kept
            )
        )
    return tuple(written)
