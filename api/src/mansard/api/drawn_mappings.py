"""Mappings of several networks that are drawn at random, and run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping as Dict
from collections.abc import Sequence

import msgspec

from mansard.api.boards import board_root
from mansard.api.multi import MultiRequest, MultiResult, run_mappings, single_names
from mansard.api.multi_preparation import MultiPreparation
from mansard.api.reporter import SILENT, Reporter
from mansard.api.sweeps import choose_modes
from mansard.core.errors import UsageError
from mansard.inference.multi.drawing import Drawing, draw
from mansard.inference.multi.mappings import Mapping


def run_drawn(
    request: MultiRequest,
    models: Sequence[str],
    devices: Sequence[str],
    drawing: Drawing,
    reporter: Reporter = SILENT,
    *,
    has_seed_per_mode: bool = False,
) -> MultiResult:
    """Draw mappings of ``models`` on ``devices``, and run them as ``run_mappings``.

    ``has_seed_per_mode``: the seed of each mode is that of ``drawing`` and its name; else all modes
    have the same mappings. Raises UsageError for numbers that cannot be.
    """
    names = single_names(models)
    if len(set(names)) < len(names):
        raise UsageError("a network is named twice", fix="name it once: it is drawn once")
    cuts = dict.fromkeys(names, tuple[int, ...]())
    draw(cuts, devices, msgspec.structs.replace(drawing, most_split=0))  # what is wrong, at once
    if len(devices) > 1 and drawing.most_split != 0:
        for name in names:  # one after the other: the weights of one are on disk
            preparation = MultiPreparation(request.settings)
            with preparation:
                cuts[name] = preparation.cut_nodes(name, reporter)
    if not has_seed_per_mode:
        return run_mappings(request, _drawn(cuts, devices, drawing, reporter), reporter)
    from mansard.device.controller.controller import LocalController

    if request.hosts:
        raise UsageError("--seed-per-mode is for this machine", fix="run it on the board")
    modes = choose_modes(LocalController(board_root(request.board)), request, reporter)
    results = [
        run_mappings(
            msgspec.structs.replace(request, mode=mode.name, pick=None),
            _drawn(cuts, devices, _seeded(drawing, mode.name), reporter),
            reporter,
        )
        for mode in modes
    ]
    failures = [each.failure for each in results if each.failure is not None]
    rows = tuple(row for each in results for row in each.rows)
    return MultiResult(rows, failures[0] if failures else None)


def _drawn(
    cuts: Dict[str, Sequence[int]], devices: Sequence[str], drawing: Drawing, reporter: Reporter
) -> tuple[Mapping, ...]:
    found = draw(cuts, devices, drawing)
    n_single = len(cuts) * len(devices) if drawing.has_single else 0
    if len(found) - n_single < drawing.n_mappings:
        reporter.note(
            f"{len(found) - n_single} mappings, not {drawing.n_mappings}: no more that differ "
            "were found among these networks and devices"
        )
    return found


def _seeded(drawing: Drawing, mode: str) -> Drawing:
    seed = zlib.crc32(f"{drawing.seed} {mode}".encode())
    return msgspec.structs.replace(drawing, seed=seed)
