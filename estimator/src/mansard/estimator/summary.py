"""The sums over a network's layers, and what keeps them from being known."""

from __future__ import annotations

import msgspec

from mansard.core.records import ModelScore

# The fields of a LayerScore that add up over layers.
COUNTS = (
    "macs",
    "work_flop",
    "parameters",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "traffic_bytes",
)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all layers. A sum with an unknown layer is None, its reason in ``unknown``.

    ``intensity`` is work over traffic in FLOP per byte; None also where nothing moves.
    """

    macs: int | None
    work_flop: int | None
    parameters: int | None
    weight_bytes: int | None
    input_bytes: int | None
    output_bytes: int | None
    traffic_bytes: int | None
    intensity: float | None
    n_layers: int
    n_unknown_layers: int
    unknown: dict[str, str] = msgspec.field(default_factory=dict)


def totals(score: ModelScore) -> Totals:
    """Add up the layers of ``score``."""
    sums: dict[str, int | None] = {}
    unknown: dict[str, str] = {}
    for name in COUNTS:
        missing = [layer for layer in score.layers if getattr(layer, name) is None]
        sums[name] = None if missing else sum(getattr(layer, name) for layer in score.layers)
        if missing:
            first = missing[0]
            more = f" and {len(missing) - 1} more layer(s)" if len(missing) > 1 else ""
            unknown[name] = f"{first.op_type} {first.name!r}{more}: {first.unknown[name]}"
    work, moved = sums["work_flop"], sums["traffic_bytes"]
    intensity = work / moved if work is not None and moved else None
    if intensity is None:
        unknown["intensity"] = next(iter(unknown.values()), "no bytes are moved")
    return Totals(
        **sums,
        intensity=intensity,
        n_layers=len(score.layers),
        n_unknown_layers=sum(bool(layer.unknown) for layer in score.layers),
        unknown=unknown,
    )
