"""Rows of networks that were run, as tables get them."""

from __future__ import annotations

from typing import Any

from mansard.analytics.models.predict.row_times import NetworkTimes

_WORDS: dict[str, Any] = {
    "run_id": "run",
    "run_ids": ("run",),
    "device": "board",
    "network": "net",
    "model_hash": "a" * 16,
    "batch": 1,
    "precision": "fp32",
    "phase": "inference",
    "engine": "ort",
    "source": "measured",
    "n_calls": 0,
    "remark": "",
}


def network_times(mode: str, **known: Any) -> NetworkTimes:
    """A row in ``mode``; what is not ``known`` is unknown."""
    values: dict[str, Any] = {
        name: None for name in NetworkTimes.__struct_fields__ if name != "unknown"
    }
    values |= {"label": "", "disturbed_s": (), "mode": mode, **_WORDS, **known}
    unknown = {name: "made up" for name, value in values.items() if value is None}
    return NetworkTimes(unknown=unknown, **values)
