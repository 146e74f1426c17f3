"""Counters by what they are of: one network in one setting on one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mansard.core.hardware import BOARD_CACHES, MODULES
from mansard.core.records import KernelCounters, LayerTime, Measurement, ModelScore, Phase


@dataclass(frozen=True)
class Counted:
    """The kernels of one network in one setting. ``warm``: caches were not emptied before each."""

    rows: Sequence[KernelCounters]
    warm: bool = False

    @property
    def network(self) -> str | None:
        """What ran, as it was said."""
        return self.rows[0].network

    @property
    def phase(self) -> Phase:
        """What it did."""
        return self.rows[0].phase

    @property
    def cache_bytes(self) -> int | None:
        """The last-level cache of the GPU, by its compute capability and SMs; None: not known."""
        sm, n_sms = self.rows[0].compute_capability, self.rows[0].n_sms
        if sm == 80:
            return BOARD_CACHES["a100"]
        sizes = {m.l2_bytes for m in MODULES.values() if m.sm == sm and m.n_sms == n_sms}
        return sizes.pop() if len(sizes) == 1 else None


def by_setting(rows: Iterable[KernelCounters]) -> tuple[Counted, ...]:
    """Imported rows by export and setting, in the order in which they come."""
    found: dict[tuple[object, ...], list[KernelCounters]] = {}
    for row in rows:
        key = (row.device, row.mode, row.network, row.batch, row.precision, row.phase)
        found.setdefault((*key, row.table_id), []).append(row)
    return tuple(Counted(own) for own in found.values())


def is_of(score: ModelScore, counted: Counted) -> bool:
    """Whether a score is of the network in the setting that was counted."""
    row = counted.rows[0]
    same = row.model_hash == score.model_hash if row.model_hash else row.network == score.model
    return (
        same
        and score.phase == row.phase
        and (row.batch is None or score.batch == row.batch)
        and (row.precision is None or score.precision == row.precision)
    )


def layers_of(
    measured: Iterable[tuple[str, str, Measurement]], score: ModelScore, counted: Counted
) -> tuple[LayerTime, ...]:
    """The layers that a run timed of the same network on the same device in the same mode.

    ``measured``: device, mode and row of each. Published counters have none: they are of others.
    """
    first = counted.rows[0]
    for device, mode, row in measured:
        is_same = (row.model_hash, row.batch, row.precision, row.phase) == (
            score.model_hash,
            score.batch,
            score.precision,
            score.phase,
        )
        if is_same and row.layers and (device, mode) == (first.device, first.mode):
            return row.layers
    return ()
