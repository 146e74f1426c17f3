"""Modes and coefficients of a board called "board", a row at a time."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA


def rows(*modes: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame([{"device": "board", **mode} for mode in modes], schema=MODE_SCHEMA)


def coefficient(mode: str, value: float | None, **other: object) -> dict[str, object]:
    plain = {
        "device": "board",
        "mode": mode,
        "quantity": "peak",
        "subject": "fp32",
        "unit": "CUDA core",
        "value": value,
        "low": value,
        "high": value,
        "source": "measured",
        "is_extrapolated": False,
        "reason": None if value is not None else "its only trial was disturbed",
    }
    return {**plain, **other}


def table(*found: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(found, schema=COEFFICIENT_SCHEMA)


def only(frame: pl.DataFrame, **where: str) -> dict[str, object]:
    return frame.row(
        by_predicate=pl.all_horizontal(*(pl.col(name) == value for name, value in where.items())),
        named=True,
    )
