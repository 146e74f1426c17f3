"""Repeats of one network in one mode, in several tables or rows: one value wherever shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.scaling.network_fit import fit_networks
from mansard.analytics.pages.figures.accuracy import accuracy_points

# Three sweeps of one network on one board, the second a rough one.
TIMES_MS = {"15W": (20.0, 26.0, 21.0), "30W": (11.0, 13.0, 10.0), "MAXN": (5.0, 5.2, 9.0)}
DEVICE = "Jetson AGX Orin 64GB"


def write(
    path: Path, rows: Sequence[tuple[str, ...]], *, head: str = "mode,network,batch,ms,W"
) -> Path:
    path.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")
    return path


def keep(runs: Path, *tables: Path) -> None:
    for number, table in enumerate(tables):
        origin = api.TableOrigin(citation=f"author {number}", device=DEVICE)
        api.import_tables([table], origin, runs=runs)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A folder with a table for each sweep."""
    tables = [
        write(
            tmp_path / f"{sweep}.csv",
            [(mode, "net", "1", str(times[sweep]), "20") for mode, times in TIMES_MS.items()],
        )
        for sweep in range(3)
    ]
    keep(tmp_path / "runs", *tables)
    return tmp_path / "runs"


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A folder with one table of all sweeps, whose rows say which they are of."""
    rows = [
        (mode, "net", "1", str(time), "20", str(sweep))
        for mode, times in TIMES_MS.items()
        for sweep, time in enumerate(times)
    ]
    table = write(tmp_path / "all.csv", rows, head="mode,network,batch,ms,W,sweep")
    origin = api.TableOrigin(citation="author", device=DEVICE)
    api.import_tables([table], origin, columns={"repeat": "sweep"}, runs=tmp_path / "one")
    return tmp_path / "one"


def shown(runs: Path) -> pl.DataFrame:
    return api.predict(api.PredictionRequest(runs=(str(runs),))).predictions.sort("mode")


def test_what_is_shown_is_what_is_fitted(several: Path) -> None:
    frame = shown(several)
    wanted = {mode: median(times) / 1e3 for mode, times in TIMES_MS.items()}
    assert dict(frame.select("mode", "latency_s").iter_rows()) == pytest.approx(wanted)
    assert frame["notes"].str.contains("pooled from 3 measurements").all()
    models = find_models(ingest(several))
    (fit,) = fit_networks(models.observations, models.modes)
    assert dict(fit.measured.select("mode", "latency_s").iter_rows()) == pytest.approx(wanted)
    # Their scatter is in the interval: 20, 21 and 26 ms
    ends = frame.row(by_predicate=pl.col("mode") == "15W", named=True)
    assert ends["latency_low_s"] < 0.020
    assert ends["latency_high_s"] > 0.021


def test_rows_of_one_table_are_as_tables(several: Path, one: Path) -> None:
    # But for rounding: the order of tables is that of their ids.
    assert_frame_equal(shown(one), shown(several), rel_tol=1e-9)


def test_a_pooled_network_is_one_point_of_accuracy(several: Path) -> None:
    models = find_models(ingest(several))
    predicted = shown(several).with_columns(latency_s=pl.col("latency_s") * 1.1)
    found = accuracy_points(models.observations, predicted, {})
    # 1.1 times the medians: one error of 10 % for each mode, and none of a single sweep
    assert found.frame.select("mode", "measured", "error").sort("mode").rows() == [
        ("15W", 21.0, pytest.approx(10.0)),
        ("30W", 11.0, pytest.approx(10.0)),
        ("MAXN", 5.2, pytest.approx(10.0)),
    ]
    assert (found.n_matched, found.n_unmatched) == (3, 0)


def test_a_doubtful_power_is_not_pooled(tmp_path: Path) -> None:
    head = "mode,network,batch,ms,W,remark"
    plain = write(tmp_path / "a.csv", [("15W", "net", "1", "20", "12", "")], head=head)
    doubtful = write(tmp_path / "b.csv", [("15W", "net", "1", "22", "90", "no warm-up")], head=head)
    keep(tmp_path / "runs", plain, doubtful)
    (row,) = shown(tmp_path / "runs").iter_rows(named=True)
    assert row["latency_s"] == pytest.approx(0.021)  # of 20 and 22 ms
    assert row["power_w"] == pytest.approx(12.0)


def test_settings_of_a_mode_come_from_any_table(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", [("15W", "net", "1", "20", "12")])
    second = write(
        tmp_path / "b.csv",
        [("15W", "net", "1", "22", "12", "400")],
        head="mode,network,batch,ms,W,gpu_mhz",
    )
    keep(tmp_path / "runs", first, second)
    (mode,) = find_models(ingest(tmp_path / "runs")).modes.iter_rows(named=True)
    # The clock is the second table's, the rest NVIDIA's 15W of an AGX Orin: 6 SMs at 2133 MHz.
    assert list(mode) == list(MODE_SCHEMA)
    assert (mode["gpu_hz"], mode["memory_hz"], mode["n_sms"]) == (400e6, 2133e6, 6)
