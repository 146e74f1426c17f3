"""Times above the roof: which format or clock explains them, and that no fit has them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.analytics.data.published.claims import ClaimedWork, above_roof, mode_peaks
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.prediction import calibration_of
from mansard.analytics.models.predict.timed_layers import LAYER_GROUP_SCHEMA
from mansard.analytics.models.sanity.checks import find_faults
from mansard.analytics.models.scaling.above_roofs import Claimed, ModePeaksTable, judge_layers
from mansard.core.hardware import MODULES
from tests.analytics.predict_factory import group, groups_of
from tests.analytics.score_factory import layer, score, write_scores

ORIN, VOLTA, PASCAL = (MODULES[name] for name in ("p3701-0005", "p2888-0004", "p3310-1000"))
# 16 SMs × 256 FLOP × 1300.5 MHz; in TF32 × 1024, in fp16 × 2048.
FP32, TF32, FP16 = 5.326848e12, 21.307392e12, 42.614784e12
# Volta: 8 SMs × 128 FLOP × 1377 MHz; fp16 on tensor cores × 1024.
VOLTA_FP32, VOLTA_FP16 = 1.410048e12, 11.280384e12


def test_tf32_would_explain_1_7_times_the_peak_of_cuda_cores() -> None:
    # 1.7 × 5.327 / 21.31 = 0.425.
    claim = above_roof(
        1e-3, ClaimedWork({"fp32": 1.7e-3 * FP32}, 0.0), mode_peaks(ORIN, None, None)
    )
    assert claim is not None
    assert claim.ratio == pytest.approx(1.7)
    assert (claim.causes, claim.is_refused) == (("TF32 (0.42 of its peak)",), True)
    assert claim.text.replace("\u00a0", " ") == (
        "1.00 ms needs 1.7 times the fp32 peak of the mode (9.06 TFLOP/s against 5.33 TFLOP/s); "
        "TF32 (0.42 of its peak) would explain it alone"
    )


@pytest.mark.parametrize(
    ("module", "mode", "work", "causes", "is_refused"),
    [
        # 8 SMs at 612 MHz: 1.2534 TFLOP/s, 4.25 times less than at the highest clocks. TF32 has
        # four times the peak of CUDA cores: 2 / 4 = 0.5, 2 / 4.25 = 0.47.
        (
            ORIN, (8, 612e6), ({"fp32": 2e-3 * 1.253376e12}, 0.0),
            ["TF32 (0.5 of its peak)", "clocks or SMs above those of the mode (0.47"], True,
        ),
        # 4.1 times: TF32 does not, clocks do (4.1 / 4.25 = 0.96), fp16 too (4.1 / 8 = 0.51).
        (
            ORIN, (8, 612e6), ({"fp32": 4.15e-3 * 1.253376e12}, 0.0),
            ["FP16 (0.52 of its peak)", "clocks or SMs above those of the mode (0.98"], True,
        ),
        # Volta has no TF32: 1.3 times is fp16 (1.3 / 8), or Winograd.
        (
            VOLTA, (None, None), ({"fp32": 1.3e-3 * VOLTA_FP32}, None),
            ["FP16 (0.16 of its peak)", "Winograd"], False,
        ),
        # Half of the work in 3 × 3 convolutions: Winograd makes it 0.5 + 0.5 / 2.25 = 0.72.
        (VOLTA, (None, None), ({"fp32": 1.3e-3 * VOLTA_FP32}, 0.5), ["FP16", "Winograd"], False),
        (VOLTA, (None, None), ({"fp32": 1.5e-3 * VOLTA_FP32}, 0.5), ["FP16 (0.19"], True),
        (VOLTA, (None, None), ({"fp32": 3e-3 * VOLTA_FP32}, None), ["FP16 (0.38"], True),
        # Pascal of a TX2 has no tensor cores: fp16 in pairs is twice the rate of fp32.
        (PASCAL, (None, None), ({"fp32": 3e-3 * 2 * 256 * 1300e6}, 0.0), [], True),
        (ORIN, (None, None), ({"fp16": 1.4e-3 * FP16}, 0.0), ["INT8 (0.7", "2:4 sparsity"], True),
        (ORIN, (None, None), ({"int8": 1.4e-3 * 2 * FP16}, 0.0), ["2:4 sparsity"], True),
        (ORIN, (None, None), ({"fp32": 1.0}, 0.0), [], True),  # in 1e-3 s it is slow: none
    ],
)  # fmt: skip
def test_what_explains_a_time(
    module: object, mode: tuple[int | None, float | None], work: tuple[dict[str, float], float],
    causes: list[str], is_refused: bool,
) -> None:  # fmt: skip
    claim = above_roof(1e-3, ClaimedWork(*work), mode_peaks(module, *mode))  # type: ignore[arg-type]
    if work[0] == {"fp32": 1.0}:
        assert claim is None
        return
    assert claim is not None
    assert claim.is_refused == is_refused
    assert len(claim.causes) == len(causes)
    for cause, expected in zip(claim.causes, causes, strict=True):
        assert cause.startswith(expected)
    assert causes or "the unit, the batch or the count is wrong" in claim.text


@given(st.floats(0.01, 100.0), st.sampled_from(["fp32", "tf32", "fp16", "int8"]))
def test_a_time_is_questioned_where_it_is_above_its_roof(ratio: float, precision: str) -> None:
    peaks = mode_peaks(ORIN, 8, 612e6)
    work = ClaimedWork({precision: ratio * 1e-3 * peaks.flop_per_s[precision]}, 0.0)
    claim = above_roof(1e-3, work, peaks)
    assert (claim is None) == (ratio <= 1.02)
    assert claim is None or claim.ratio == pytest.approx(ratio)


def test_a_precision_without_a_peak_questions_nothing() -> None:
    assert above_roof(1e-9, ClaimedWork({"fp4": 1e12}, None), mode_peaks(ORIN, None, None)) is None


@pytest.mark.parametrize(
    ("rates", "ms", "is_used"),
    [
        # 10 GFLOP in 0.3 ms are 33.3 TFLOP/s: 1.7 times the 19.5 of fp32, 0.21 of TF32.
        ("fp32,cuda,19500\nMAXN,tf32,tensor,156000", 0.3, False),
        # 0.45 ms are 22.2: 1.14 times a peak that was measured, and no limit.
        ("fp32,cuda,19500\nMAXN,tf32,tensor,156000", 0.45, True),
        ("fp32,cuda,19500", 0.3, False),  # a matrix product is no Winograd
        ("fp16,tensor,156000", 0.3, True),  # nothing is known of fp32
    ],
)
def test_a_card_is_judged_by_its_own_peaks(
    tmp_path: Path, rates: str, ms: float, is_used: bool
) -> None:
    origin = api.TableOrigin(citation="A. Author, 2026", device="NVIDIA A100")
    tables = {
        "rates.csv": f"mode,precision,unit,gflops\nMAXN,{rates}\n",
        "runs.csv": f"mode,network,batch,precision,ms\nMAXN,net,1,fp32,{ms}\n",
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
        api.import_tables([tmp_path / name], origin, runs=tmp_path / "runs")
    products = [layer(0, 10_000_000_000, 1_000_000, op_type="MatMul")]
    write_scores(tmp_path / "runs", [score("net", products)])
    models = find_models(ingest(tmp_path / "runs"))
    assert (models.observations["latency_s"].null_count() == 0) == is_used


# Layers.

NO_RATES = pl.DataFrame(schema=COEFFICIENT_SCHEMA)


@pytest.mark.parametrize(
    ("device", "engine", "first_s", "is_refused"),
    [
        # 5.33 GFLOP of fp32 are 1 ms on an AGX Orin. In 0.6 ms they need 1.67 times the peak.
        ("Jetson AGX Orin 64GB GPU", "onnxruntime cuda", 0.6e-3, True),
        ("Jetson AGX Orin 64GB GPU", "onnxruntime cuda", 1.1e-3, False),
        ("Jetson AGX Orin 64GB GPU", "tensorrt", 0.6e-3, False),  # TF32 is off: Winograd
        ("Jetson AGX Orin 64GB GPU", "tensorrt", 0.4e-3, True),  # 2.5 times is more than that
        ("Jetson AGX Orin 64GB CPU", "onnxruntime cpu", 0.6e-3, False),  # it has other peaks
        ("a card", "onnxruntime cuda", 0.6e-3, False),
        # Volta: 3.8 ms; in 2.9 ms 1.3 times, which Winograd may be.
        ("Jetson AGX Xavier GPU", "onnxruntime cuda", 2.9e-3, False),
        ("Jetson AGX Xavier GPU", "onnxruntime cuda", 1.0e-3, True),
    ],
)
def test_a_layer_above_its_roof_is_in_no_class(
    device: str, engine: str, first_s: float, is_refused: bool
) -> None:
    groups = groups_of(
        group(0, cuda=FP32 / 1e3, op_class="conv"), group(1, cuda=1e9, op_class="elementwise")
    )
    same = {"device": device, "mode": "MAXN", "network": "net", "batch": 1, "precision": "fp32"}
    of_score = {"phase": "inference", "engine": engine, "score_id": "s"}
    # The work of the second layer is no multiply-adds: it is never above that peak.
    rows = [
        {**same, **of_score, "layer": at, "group": at, "measured_s": measured_s}
        for at, measured_s in enumerate((first_s, 1e-9))
    ]
    timed = pl.DataFrame(rows, schema=LAYER_GROUP_SCHEMA)
    modes = pl.DataFrame([{"device": device, "mode": "MAXN"}], schema=MODE_SCHEMA)
    judged = judge_layers(timed, groups, ModePeaksTable(modes, NO_RATES), ())
    assert judged.drop("measured_s").equals(timed.drop("measured_s"))
    assert judged["measured_s"].to_list() == [None if is_refused else first_s, 1e-9]


def test_the_layers_of_a_refused_network_are_in_no_class() -> None:
    claim = above_roof(
        1e-3, ClaimedWork({"fp32": 1.7e-3 * FP32}, 0.0), mode_peaks(ORIN, None, None)
    )
    assert claim is not None
    where = {"device": "Jetson AGX Orin 64GB GPU", "mode": "MAXN", "network": "net", "batch": 1}
    claimed = Claimed(**where, precision="fp32", claim=claim)  # type: ignore[arg-type]
    of_score = {"phase": "inference", "engine": "ort", "score_id": "s", "layer": 0, "group": 0}
    rows = [
        {**where, **of_score, "precision": name, "measured_s": 1.0} for name in ("fp32", "fp16")
    ]
    timed = pl.DataFrame(rows, schema=LAYER_GROUP_SCHEMA)
    modes = pl.DataFrame([{"device": where["device"], "mode": "MAXN"}], schema=MODE_SCHEMA)
    judged = judge_layers(
        timed, groups_of(group(0, cuda=1e9)), ModePeaksTable(modes, NO_RATES), (claimed,)
    )
    assert judged["measured_s"].to_list() == [None, 1.0]


# Imported.


def runs_of(folder: Path, table: str, module: str = "agx-orin") -> Path:
    path = folder / "file.csv"
    path.write_text(table)
    origin = api.TableOrigin(citation="A. Author, 2026", module=module)
    api.import_tables([path], origin, runs=folder / "runs")
    return folder / "runs"


HEAD = "mode,network,batch,precision,ms,power_w\n"


def test_a_network_of_the_zoo_in_fp32_is_tf32(tmp_path: Path) -> None:
    # resnet50: 2 × 4.09 GMAC × 8 = 65.4 GFLOP in 7.2 ms are 9.1 TFLOP/s, 1.7 times the peak.
    table = f"{HEAD}MAXN,resnet50,8,fp32,7.2,40\nMAXN,resnet50,8,tf32,7.2,40\n"
    models = find_models(ingest(runs_of(tmp_path, table)))
    claimed, other = models.observations.sort("precision").iter_rows(named=True)
    assert (claimed["latency_s"], claimed["power_w"]) == (None, None)
    assert "TF32 (0.43 of its peak) or Winograd" in claimed["reason"]
    assert other["latency_s"] == pytest.approx(7.2e-3)
    assert any("times the fp32 peak of the mode" in note for note in models.notes)


def test_on_volta_winograd_explains_it_and_the_row_stays(tmp_path: Path) -> None:
    # 8.18 GFLOP in 4.46 ms are 1.3 × 1.41 TFLOP/s.
    runs = runs_of(tmp_path, f"{HEAD}MAXN,resnet50,1,fp32,4.46,40\n", "agx-xavier")
    assert find_models(ingest(runs)).observations["latency_s"].null_count() == 0


def test_a_scored_network_above_its_roof_is_in_no_calibration(tmp_path: Path) -> None:
    # "net" is 10 GFLOP of matrix products: 1.88 ms at the peak of CUDA cores, and 1.1 ms is 1.7
    # times as fast. "slow" takes 4 ms.
    table = (
        "mode,network,batch,precision,ms\nMAXN,net,1,fp32,1.1\nMAXN,slow,1,fp32,4\n"
        "30W,slow,1,fp32,9\n"
    )
    runs = runs_of(tmp_path, table)
    runs_of_rates = "mode,fp32_gflops,dram_gb_per_s\nMAXN,5000,190\n30W,1200,150\n"
    (tmp_path / "rates").mkdir()
    path = tmp_path / "rates/file.csv"
    path.write_text(runs_of_rates)
    origin = api.TableOrigin(citation="A. Author, 2026", module="agx-orin")
    api.import_tables([path], origin, runs=runs)
    products = [layer(0, 10_000_000_000, 1_000_000, op_type="MatMul")]
    write_scores(runs, [score("net", products), score("slow", products)])
    models = find_models(ingest(runs))
    rows = {(r["mode"], r["network"]): r for r in models.observations.iter_rows(named=True)}
    assert rows["MAXN", "net"]["latency_s"] is None
    assert "1.71 times the fp32 peak" in rows["MAXN", "net"]["reason"]
    assert rows["MAXN", "slow"]["latency_s"] == pytest.approx(4e-3)
    (fitted,) = calibration_of(models).values()
    assert {pair["network"] for pair in fitted.lines.pairs.iter_rows(named=True)} == {"slow"}
    (finding,) = [fault for fault in find_faults(models) if fault.subject == "limits"]
    assert (finding.is_serious, list(finding.networks)) == (False, ["net"])
    assert "TF32 (0.43 of its peak) would explain it alone" in finding.reason
