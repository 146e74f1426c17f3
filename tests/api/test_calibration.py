"""Calibrated predictions from imported tables: what they say, and what they need."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from mansard import api
from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.published.reference import RATES, write_reference
from mansard.analytics.models.predict.prediction import NetworkSelection
from mansard.analytics.models.predict.prediction import predict as predict_networks
from mansard.api.scores import score_zoo
from mansard.core.errors import InputError, UsageError
from mansard.core.records import ModelScore

RATES_CSV = """mode,gpu_mhz,emc_mhz,cpu_mhz,sms,precision,unit,GFLOP/s,GB/s
MAXN,1300.5,3199,2201,16,fp16,tensor,42500,189.46
MAXN,1300.5,3199,2201,16,fp32,cuda,5300,
15W,408,2133,1113,6,fp16,tensor,5000,120
15W,408,2133,1113,6,fp32,cuda,620,
"""
# TensorRT in FP16 on an AGX Orin (docs/understand/calibration.md, source 5); MobileNetV3-large took
# 0.92 ms.
TIMES_CSV = """mode,network,batch,precision,latency_ms
MAXN,resnet18,1,fp16,0.520
MAXN,resnet50,1,fp16,1.142
MAXN,mobilenet_v3_small,1,fp16,0.722
"""
NEW = "mobilenet_v3_large"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    store(tmp_path, "rates", RATES_CSV)
    return store(tmp_path, "times", TIMES_CSV)


def store(folder: Path, name: str, text: str) -> Path:
    """The folder of runs with an imported table."""
    table = folder / f"{name}.csv"
    table.write_text(text, encoding="utf-8")
    origin = api.TableOrigin(citation="a table", module="agx-orin")
    api.import_tables([table], origin, runs=folder / "runs")
    return folder / "runs"


def asked(
    runs: Path, *names: str, precision: str = "fp16", calibrate: bool = True
) -> api.PredictionRequest:
    return api.PredictionRequest(
        runs=(str(runs),),
        networks=tuple(api.NetworkRequest(name=name) for name in names),
        precisions=(precision,),
        calibrate=calibrate,
    )


def in_maxn(rows: pl.DataFrame, network: str = NEW) -> dict[str, object]:
    return rows.filter(pl.col("network") == network, pl.col("mode") == "MAXN").row(0, named=True)


def test_a_network_that_was_not_measured_has_the_interval_of_those_left_out(runs: Path) -> None:
    # Before, one factor without an interval; and an error, for no measured network was named.
    plain = in_maxn(api.predict(asked(runs, NEW, calibrate=False)).predictions)
    assert (plain["interval"], plain["is_calibrated"]) == ("roof", False)
    row = in_maxn(api.predict(asked(runs, NEW)).predictions)
    assert (row["interval"], row["is_calibrated"]) == ("spread", True)
    low, time_s, high = (float(str(row[f"latency_{end}s"])) for end in ("low_", "", "high_"))
    assert low < 0.92e-3 < high
    assert time_s == pytest.approx(0.92e-3, rel=0.2)


def test_a_measured_network_keeps_its_own_time(runs: Path) -> None:
    found = api.predict(asked(runs, "resnet50", NEW)).predictions
    row = in_maxn(found, "resnet50")
    assert row["latency_s"] == pytest.approx(1.142e-3)
    assert row["source"] == "published"
    # Naming a measured network changes nothing for the others.
    alone = api.predict(asked(runs, NEW)).predictions
    assert in_maxn(found)["latency_s"] == pytest.approx(in_maxn(alone)["latency_s"])


def test_the_notes_say_how_far_it_is_off(runs: Path) -> None:
    (note,) = api.predict(asked(runs, NEW)).notes
    assert re.search(r"calibrated by 3 measured times: .* on networks it was not fitted to", note)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (None, "--calibrate needs the measured time of a network, and there is none"),
        (
            # Nothing tells the clocks of "mine": its roofs cannot be modelled either.
            TIMES_CSV.replace("MAXN", "mine"),
            "resnet18 (batch 1, fp16, inference), resnet50 (batch 1, fp16, inference), "
            "mobilenet_v3_small (batch 1, fp16, inference): measured in mine of Jetson AGX Orin "
            "64GB (published), but its modelled time is unknown: ",
        ),
        (
            TIMES_CSV.replace("resnet", "own_net").replace("mobilenet", "other_net"),
            "other_net_v3_small (batch 1, fp16, inference): measured in MAXN of Jetson AGX Orin "
            "64GB (published), but it is not scored (scored are mobilenet_v3_large)",
        ),
        (
            "mode,network,batch,precision,latency_ms\nMAXN,mobilenet_v3_large,4,,1.5\n",
            "mobilenet_v3_large (batch 4, precision unknown, inference): measured in MAXN of "
            "Jetson AGX Orin 64GB (published), but its score has batch 1",
        ),
    ],
)
def test_what_a_calibration_needs_is_said(tmp_path: Path, times: str | None, said: str) -> None:
    runs = store(tmp_path, "rates", RATES_CSV)
    if times is not None:
        store(tmp_path, "times", times)
    with pytest.raises(InputError) as failed:
        api.predict(asked(runs, NEW))
    assert said in failed.value.what
    assert failed.value.where == str(runs)


# Two networks on Nota's AGX Orin, as if measured here. YOLOX-m took 6.2141 ms there.
ANCHORS_CSV = """mode,network,batch,precision,latency_ms,method
MAXN,resnet18,1,fp16,0.520046,TensorRT
MAXN,yolox_s_640,1,fp16,3.18338,trtexec of TensorRT 8.4
"""


def test_a_network_recorded_on_other_boards_takes_its_time_from_there(tmp_path: Path) -> None:
    # It has neither a file nor a score, and this device no roofs.
    runs = store(tmp_path, "times", ANCHORS_CSV)
    found = api.predict(asked(runs, "YOLOX-m_640"))
    row = in_maxn(found.predictions, "YOLOX-m_640")
    assert (row["source"], row["interval"], row["is_calibrated"]) == ("modelled", "spread", True)
    assert (row["energy_j"], row["score_id"]) == (None, "")
    assert row["latency_s"] == pytest.approx(6.2141e-3, rel=0.05)
    assert float(str(row["latency_low_s"])) < 6.2141e-3 < float(str(row["latency_high_s"]))
    assert "by its time on Jetson AGX Orin (Nota), through" in str(row["notes"])
    assert any("YOLOX-m_640 by times on Jetson AGX Orin (Nota)" in note for note in found.notes)


def test_a_measured_network_is_not_carried_over(tmp_path: Path) -> None:
    store(tmp_path, "rates", RATES_CSV)
    runs = store(tmp_path, "times", ANCHORS_CSV)
    found = api.predict(asked(runs, "resnet18", "resnet50")).predictions
    own, other = in_maxn(found, "resnet18"), in_maxn(found, "resnet50")
    assert (own["source"], own["latency_s"]) == ("published", pytest.approx(0.520046e-3))
    # Nota's ResNet50 took 1.1421 ms. The line of totals alone, of one scored network, says little.
    assert other["latency_s"] == pytest.approx(1.1421e-3, rel=0.1)
    assert "through resnet18, yolox_s_640 measured on both" in str(other["notes"])


def test_an_unscored_network_with_times_here_keeps_them_in_every_mode(tmp_path: Path) -> None:
    # In MAXN the anchors would carry it over; it was measured in 15W, and a row of it is there.
    own = "15W,yolox-m_640,1,fp16,20,TensorRT\n"
    runs = store(tmp_path, "times", ANCHORS_CSV + own)
    found = api.predict(asked(runs, "yolox-m_640")).predictions
    rows = {row["mode"]: row for row in found.iter_rows(named=True)}
    assert rows["15W"]["latency_s"] == pytest.approx(0.020)
    assert rows["15W"]["source"] == "published"
    assert "by its time on" not in str(rows["MAXN"]["notes"])


def test_where_there_is_no_anchor_the_error_names_one(tmp_path: Path) -> None:
    runs = store(tmp_path, "times", "mode,network,batch,precision,latency_ms,method\n"
                 "MAXN,own_net,1,fp16,0.5,TensorRT\n")  # fmt: skip
    with pytest.raises(InputError) as failed:
        api.predict(asked(runs, "yolox-m_640"))
    assert "no network was measured on both boards: measure" in str(failed.value.fix)


def test_without_calibrate_no_time_is_carried_over(tmp_path: Path) -> None:
    runs = store(tmp_path, "times", ANCHORS_CSV)
    with pytest.raises(UsageError, match="no network or language model is called 'YOLOX-m_640'"):
        api.predict(asked(runs, "YOLOX-m_640", calibrate=False))


def test_a_plan_names_the_network_that_tells_most_of_others(tmp_path: Path) -> None:
    store(tmp_path, "times", ANCHORS_CSV.replace("yolox_s_640", "own_net"))
    table = tmp_path / "other.csv"
    table.write_text(ANCHORS_CSV + "MAXN,mine_224,1,fp16,1.7,TensorRT\n", encoding="utf-8")
    origin = api.TableOrigin(citation="a table", module="orin-nx", device="Orin NX 16GB")
    api.import_tables([table], origin, runs=tmp_path / "runs")
    (found,) = api.plan(api.PlanRequest(runs=tmp_path / "runs", device="AGX", modes="15W,MAXN"))
    # Of the networks of both tables that were not measured here, the Orin NX has two.
    assert (
        "yolox_s_640, mine_224 are recorded on Orin NX 16GB (published) by tensorrt, and 1 network "
        "was measured on both boards: measure yolox_s_640 next, and --calibrate carries times over "
        "from there"
    ) in found.notes
    # Of networks that are asked for and that no run here knows.
    asked_for = ("yolov8n_640", "yolov8s_640", "yolov8m_640")
    request = api.PlanRequest(runs=tmp_path / "runs", device="AGX", modes="15W,MAXN")
    for answer in api.plan(request, asked_for):
        (line,) = [note for note in answer.notes if "recorded on" in note]
        assert line.startswith("yolov8n_640, yolov8s_640, yolov8m_640 are recorded on Jetson AGX")
        assert "measure yolov8s_640 next" in line


def demo_scores() -> list[ModelScore]:
    return [score_zoo("resnet50", batch=1, precision="fp16")]


def demo_latencies(dataset: Dataset) -> dict[str, float]:
    """By device, in its fastest mode."""
    found = predict_networks(dataset, [NetworkSelection(scores=demo_scores())]).predictions
    known = found.filter(pl.col("latency_s").is_not_null()).sort("latency_s")
    return dict(known.unique("device", keep="first").select("device", "latency_s").iter_rows())


def test_boards_are_compared_with_the_costs_of_launches_for_all_or_for_none(
    tmp_path: Path,
) -> None:
    # The shipped figures have them of the AGX Orin alone: it looked slower than an Orin Nano.
    write_reference(tmp_path, RATES)
    latencies = demo_latencies(open_runs((str(tmp_path),)))
    agx, nano = (
        next(time_s for name, time_s in latencies.items() if part in name)
        for part in ("AGX Orin", "Orin Nano")
    )
    assert agx < nano


def test_a_board_is_predicted_alike_alone_and_beside_others(tmp_path: Path) -> None:
    write_reference(tmp_path / "all", RATES)
    write_reference(tmp_path / "one", tuple(table for table in RATES if "AGX" in table.device))
    alone = demo_latencies(open_runs((str(tmp_path / "one"),)))
    beside = demo_latencies(open_runs((str(tmp_path / "all"),)))
    ((device, time_s),) = alone.items()
    assert time_s == beside[device]  # published costs of launches are in neither
