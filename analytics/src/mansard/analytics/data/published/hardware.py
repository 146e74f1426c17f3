"""The limits of a board's hardware in its named modes, as rates: roofs before anything is measured.

P = SMs × FLOP per cycle × f_gpu and B = min(f_emc × 2 × bus / 8, port × f_gpu) at the caps of each
mode of NVIDIA's table (``core.hardware.named_modes``). No kernel reaches them, so what they predict
is a time that nothing is below. Launches and energies are not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace as replace_record

from mansard.analytics.data.published.importing import Imported
from mansard.analytics.data.published.origin import table_id_of
from mansard.analytics.data.published.store import HARDWARE_METHOD
from mansard.core.errors import UsageError
from mansard.core.hardware import (
    NAMED_MODES,
    NamedMode,
    NamedModes,
    boards_called,
    memory_bytes_per_s,
    near_hint,
    peak_flop_per_s,
    plain_device,
)
from mansard.core.precision import PRECISIONS
from mansard.core.records import PublishedMode, PublishedRate, RateWorkUnit

_UNITS: tuple[tuple[RateWorkUnit, Literal["fma", "tensor"]], ...] = (
    ("CUDA core", "fma"),
    ("tensor core", "tensor"),
)


def boards_meant(name: str) -> tuple[NamedModes, ...]:
    """The boards that ``name`` may be; raises UsageError if there is none.

    A board of this very name is the only one. Else the first is that with the most memory, and of
    its configurations the one with the most modes: Super, which JetPack 6.2 brought.
    """
    boards = () if "," in name else boards_called(name)
    exact = tuple(board for board in boards if plain_device(board.board) == plain_device(name))
    if not boards:
        names = [board.board for board in NAMED_MODES]
        fix = f"{near_hint(name, names)}use one of {', '.join(names)}"
        raise UsageError(f"{name!r} is not a known board", fix=fix)
    # The table of boards has the largest module of each family first.
    alike = [board for board in boards if board.module == boards[0].module]
    first = max(alike, key=lambda board: len(board.modes))
    return exact or (first, *(board for board in boards if board is not first))


def hardware_rates(name: str) -> Imported:
    """Peaks and bandwidths of the one board that is called ``name``; raises UsageError."""
    boards = boards_meant(name)
    if len(boards) != 1:
        names = ", ".join(board.board for board in boards)
        raise UsageError(f"{name!r} may be several boards", fix=f"use one of {names}")
    rows = tuple(_rates(boards[0]))
    table_id = table_id_of(rows)
    rates = tuple(replace_record(rate, table_id=table_id) for rate in rows)
    return Imported(table_id, rates=rates)


def _rates(board: NamedModes) -> Iterator[PublishedRate]:
    row = 0
    for plain in board.modes:
        mode = board.uncapped(plain)
        for quantity, subject, unit, value in _limits(board, mode):
            row += 1
            yield PublishedRate(
                table_id="",
                row=row,
                device=board.board,
                processor="gpu",
                citation=f"clocks of NVIDIA's {board.source}; rates by docs/understand/model.md",
                mode=_published(mode),
                quantity="bandwidth" if quantity == "bandwidth" else "peak",
                subject=subject,
                unit=unit,
                value=float(value),
                method=HARDWARE_METHOD,
            )


def _limits(board: NamedModes, mode: NamedMode) -> Iterator[tuple[str, str, RateWorkUnit, float]]:
    """Each limit of a mode, in FLOP/s or B/s; what no source says is left out."""
    module, gpu_hz = board.module, mode.gpu_hz
    if gpu_hz is not None:
        for precision in PRECISIONS:
            for unit, family in _UNITS:
                peak = peak_flop_per_s(
                    module, n_sms=mode.n_sms, gpu_hz=gpu_hz, precision=precision, unit=family
                )
                if peak is not None:
                    yield "peak", precision, unit, peak
    if mode.memory_hz is not None:
        bandwidth = memory_bytes_per_s(module, mode.memory_hz)
        if module.memory_port_bytes is not None and gpu_hz is not None:
            bandwidth = min(bandwidth, module.memory_port_bytes * gpu_hz)
        yield "bandwidth", "DRAM", "", bandwidth


def _published(mode: NamedMode) -> PublishedMode:
    caps = {"gpu_hz": mode.gpu_hz, "memory_hz": mode.memory_hz, "cpu_hz": mode.cpu_hz}
    unknown = {name: "no source says it" for name, hz in caps.items() if hz is None}
    clocks = {name: None if hz is None else float(hz) for name, hz in caps.items()}
    return PublishedMode(
        name=mode.name,
        **clocks,
        n_sms=mode.n_sms,
        n_cpus=mode.n_cpus,
        power_limit_w=None,
        unknown={**unknown, "power_limit_w": "NVIDIA's table has no limit"},
    )
