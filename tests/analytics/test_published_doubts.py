"""Published figures that cannot be, and those that are kept and used by no model."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard import api
from mansard.analytics.data.published.store import (
    published_coefficients,
    published_observations,
    read_published,
)
from mansard.analytics.data.transients import MeanSpread, repeat_doubts, spread_doubt
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.core.errors import InputError

ORIGIN = api.TableOrigin(citation="A. Author, 2026", module="agx-orin")
FIXED = {"mode": "MAXN", "network": "net", "batch": "1"}


class Lines(api.SilentReporter):
    """Collects the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)


def keep(
    folder: Path,
    text: str,
    *,
    origin: api.TableOrigin = ORIGIN,
    fixed: Mapping[str, str] | None = None,
) -> list[str]:
    """Import ``text`` into ``folder``/runs; the notes, without those of filled settings."""
    path = folder / "file"
    path.write_text(text)
    lines = Lines()
    api.import_tables([path], origin, fixed=fixed, runs=folder / "runs", reporter=lines)
    return [line.partition("file: ")[2] for line in lines.notes if "NVIDIA's modes" not in line]


def times_s(folder: Path) -> list[float | None]:
    return published_observations(read_published(folder / "runs"))["latency_s"].to_list()


# Repeats.


def repeats(*times_ms: float) -> str:
    rows = "".join(f"MAXN,net,1,{at},{ms}\n" for at, ms in enumerate(times_ms, start=1))
    return f"mode,network,batch,repeat,ms\n{rows}"


SETTLED_MS = (14.2, 13.9, 13.6, 13.4, 13.2)


def test_the_first_repeat_after_a_switch_is_set_aside(tmp_path: Path) -> None:
    (note,) = keep(tmp_path, repeats(112, *SETTLED_MS))
    assert note.replace("\u00a0", " ") == (
        "line 2: repeat 1 of 6 has 112 ms and 5 others have 13.2 ms to 14.2 ms: set aside as a "
        "transient, as the first after a switch of the mode is; kept, but not used for predictions"
    )
    assert times_s(tmp_path) == [None, *(pytest.approx(ms / 1e3) for ms in SETTLED_MS)]
    assert len(read_published(tmp_path / "runs").runs) == 6  # stored as its author says


@pytest.mark.parametrize(
    ("times_ms", "n_used"),
    [
        ((13.6, 112, 13.4, 13.5), 3),  # in the middle
        ((13.6, 13.4, 13.5, 112), 3),  # at the end
        ((112, 60, 13.6, 13.5, 13.4, 13.5), 4),  # two of them
        ((18, 13.6, 13.5, 13.4, 13.5, 13.6), 5),  # a third slower than five that agree
        ((5, 13.6, 13.5, 13.4), 3),  # faster than the others
        ((13.5, 22.1, 13.6, 22.0, 13.4, 22.2), 0),  # two modes interleaved
        ((112, 13.6), 0),  # nothing tells which of two is right
        ((13.2, 14.2, 13.6), 3),
        ((5.0, 5.2, 9.0), 3),  # few, and no factor of two
        ((112,), 1),
    ],
)
def test_repeats_that_lie_apart(tmp_path: Path, times_ms: tuple[float, ...], n_used: int) -> None:
    notes = keep(tmp_path, repeats(*times_ms))
    assert len([time_s for time_s in times_s(tmp_path) if time_s is not None]) == n_used
    assert len(notes) == len(times_ms) - n_used


@given(st.lists(st.floats(1.0, 1.2), min_size=4, max_size=12), st.data())
def test_one_repeat_that_is_far_off_is_the_only_one_set_aside(
    times: list[float], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(times)))
    times.insert(place, data.draw(st.sampled_from([0.2, 2.0, 8.0, 100.0])))
    assert list(repeat_doubts(times)) == [place]


def test_a_lone_repeat_is_said_where_others_have_several(tmp_path: Path) -> None:
    (note,) = keep(tmp_path, repeats(13.5, 13.6) + "15W,net,1,1,30\n")
    assert "in a mode with one repeat, where others have several" in note


@pytest.mark.parametrize(
    "head", ["mode,network,batch,mean_ms,std_ms", "mode,network,batch,latency_ms,latency_std"]
)
def test_a_mean_whose_deviation_is_larger_is_not_used(tmp_path: Path, head: str) -> None:
    # Six repetitions, one of them 112 ms: their mean is 30.0 ms, their deviation 40.1 ms.
    (note,) = keep(tmp_path, f"{head}\nMAXN,net,1,30.0,40.1\n30W,net,1,22.1,0.4\n")
    assert "its standard deviation of 40.1 ms is 134% of its mean" in note.replace("\u00a0", " ")
    assert times_s(tmp_path) == [None, 0.0221]


@pytest.mark.parametrize(
    ("deviation_s", "tails_s", "usual", "why"),
    [
        # 267.9 ms is above the 242.4 ms that 95 % of the calls keep to.
        (63.5e-3, {"p95_s": 0.2424}, None, "its mean of 268 ms is above its p95 of 242 ms"),
        # 0.0635 / 0.2679 = 24 %; 0.0635 / (0.2700 − 0.2679) = 30, a normal distribution has 0.6.
        (63.5e-3, {"p95_s": 0.2700}, None, "is 24% of its mean of 268 ms, far more than its p95"),
        (63.5e-3, {"p99_s": 0.2800}, None, "far more than its p99 of 280 ms allows"),
        # 24 % is 79 times the 0.3 % of the other rows.
        (63.5e-3, {}, 0.003, "where 0.3% is usual beside it"),
        (150e-3, {}, None, "is 56% of its mean"),
        # 0.0635 / (0.38 − 0.2679) = 0.57: the calls scatter like a normal distribution.
        (63.5e-3, {"p95_s": 0.38}, None, None),
        (63.5e-3, {}, 0.05, None),  # eight times 5 % is 40 %
        (63.5e-3, {}, None, None),
        # Less than a tenth changes little: 5.5 / 293 = 2 %.
        (5e-3, {"p95_s": 0.2679}, 0.001, None),
        (5e-3, {"p95_s": 0.2650}, None, None),  # 0.2679 / 0.2650 = 1.011: rounding
        (None, {"p95_s": 0.2424}, None, "is above its p95"),
        (None, {}, 0.001, None),
    ],
)
def test_what_a_deviation_and_a_percentile_say_of_a_mean(
    deviation_s: float | None, tails_s: dict[str, float], usual: float | None, why: str | None
) -> None:
    doubt = spread_doubt(MeanSpread(0.2679, deviation_s, tails_s), usual)
    assert (doubt is None) == (why is None)
    assert (why or "") in (doubt or "").replace("\u00a0", " ")


@given(st.lists(st.floats(0.9, 1.1), min_size=20, max_size=60))
def test_settled_calls_are_not_doubted(times: list[float]) -> None:
    array = np.array(times)
    tail_s = float(np.quantile(array, 0.95))
    spread = MeanSpread(float(array.mean()), float(array.std()), {"p95_s": tail_s})
    # Half of the calls at either end of ± 10 %: a deviation of 0.1, and a p95 at 1.1.
    assert spread_doubt(spread, 0.0125) is None


def test_the_power_of_a_doubted_time_is_not_used(tmp_path: Path) -> None:
    # Of repeats, and of a mean: the energy is of the same window as the slow call.
    rows = "".join(f"MAXN,net,1,{at},{ms},20\n" for at, ms in enumerate((112, *SETTLED_MS)))
    keep(tmp_path, f"mode,network,batch,repeat,ms,power_w\n{rows}")
    frame = published_observations(read_published(tmp_path / "runs"))
    assert frame["power_w"].to_list() == [None, 20, 20, 20, 20, 20]
    assert frame["reason"][0].count("set aside as a transient") == 2  # of the time and the power


@pytest.mark.shared_data
@pytest.mark.parametrize("column", ["p95_ms", ""])
def test_means_of_a_recorded_board_that_hold_a_transient(
    tmp_path: Path, shared_data: Path, column: str
) -> None:
    # Settled: 242.0 ms of fcn_resnet50 in 30W_ALL, 13.2 to 14.2 ms of lraspp in MAXN (SOURCES.md).
    (path,) = (shared_data / "power_modes").glob("uav-seg-zoo*_fp32_b1.csv")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    heads = ["mode", "precision", "batch", "latency_ms", "latency_std_ms", "e_total_j", column]
    table = ",".join(["network", *filter(None, heads)]) + "\n"
    for row in rows:
        cells = [f"{row['model']}_{row['height']}", *(row[head] for head in heads if head)]
        table += ",".join(cells) + "\n"
    keep(tmp_path, table, origin=api.TableOrigin(citation="A", module="agx-xavier"))
    frame = published_observations(read_published(tmp_path / "runs"))
    doubted = frame.filter(pl.col("latency_s").is_null())
    places = list(doubted.select("mode", "network").iter_rows())
    expected = [("MODE_30W_ALL", "fcn_resnet50_384"), ("MAXN", "lraspp_mobilenet_v3_large_384")]
    # 268.4 ms is above its p95 of 257.2 ms by 4 %; its deviation of 8 % alone would not show it.
    expected += [("MAXN", "deeplabv3_resnet50_384")] if column else []
    assert places == expected
    assert doubted["power_w"].null_count() == len(expected)
    assert frame["power_w"].null_count() == len(expected)


# What a mode's clocks allow.

RATES = "mode,gpu_mhz,emc_mhz,sms,precision,unit,GFLOP/s,GB/s\n"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        # 6 SMs × 256 × 408 MHz = 0.627 TFLOP/s of CUDA cores; TF32 on tensor cores 2.507.
        ("15W,408,2133,6,fp32,cuda,2100,80", "clock was higher or it is TF32 of tensor cores"),
        # 2.1 / 0.6267 = 3.35; at the highest clocks 2.1 / 5.327 = 0.39; 2.1 / 2.507 = 0.84.
        (
            "15W,408,2133,6,fp32,cuda,2100,80",
            "(3.35 times the limit, 0.39 of it at the highest clocks, 0.84 of the TF32 peak)",
        ),
        # 16 × 2048 × 1300.5 MHz = 42.6 TFLOP/s dense.
        ("M,1300.5,3199,16,fp16,tensor,80000,80", "it counts with sparsity, twice the dense rate"),
        # 16 × 4096 × 1300.5 MHz = 85.2 TOP/s dense.
        ("M,1300.5,3199,16,int8,tensor,275000,80", "it counts sparsity and the DLAs"),
        ("M,1300.5,3199,16,int8,tensor,900000,80", "can do: the unit is wrong"),
        # 2 × 665 MHz × 32 bytes = 42.6 GB/s.
        ("M,1300.5,665,16,fp32,cuda,5000,150", "its memory clock was higher"),
        # 8 × 256 × 612 MHz = 1.25 TFLOP/s; at 1300.5 MHz with 16 SMs 5.33.
        ("M,612,3199,8,fp32,cuda,5000,80", "its GPU clock was higher"),
        ("M,1300.5,3199,16,fp32,cuda,5000,900", "a cache was measured, or the unit is wrong"),
    ],
)
def test_a_rate_above_what_the_clocks_allow_is_kept_apart(
    tmp_path: Path, row: str, why: str
) -> None:
    (note,) = keep(tmp_path, f"{RATES}{row}\n")
    assert why in note
    published = read_published(tmp_path / "runs")
    assert len(published.rates) == 2
    assert published_coefficients(published).height == 1
    (roof,) = published_rooflines(published)
    assert len(roof.peaks) + len(roof.bandwidths) == 1


def test_the_clocks_of_a_named_mode_count(tmp_path: Path) -> None:
    # "15W" says no clock: NVIDIA's table has 6 SMs at 408 MHz, 0.627 TFLOP/s.
    (note,) = keep(tmp_path, "mode,fp32_gflops\n15W,2100\n")
    assert "626.7" in note
    assert published_coefficients(read_published(tmp_path / "runs")).is_empty()


def test_a_network_faster_than_its_weights_move_is_not_of_that_mode(tmp_path: Path) -> None:
    # 25,557,032 weights of fp16 less 4 MiB of L2 cache: 46.9 MB; at 2 × 204 MHz × 32 bytes 3.59 ms,
    # at 3199 MHz 0.23 ms.
    table = "mode,network,batch,precision,emc_mhz,ms\nM,resnet50,1,fp16,204,1.2\n"
    (note,) = keep(tmp_path, table)
    assert "its clocks were not those of the mode" in note
    assert times_s(tmp_path) == [None]


# What is impossible.


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mode,network,batch,ms\nMAXN,resnet50,1,0.0001\n", "resnet50 took 0.0001 ms"),
        ("mode,network,batch,ms\nMAXN,ResNet-50,1,0.01\n", "ResNet-50 took 0.01 ms"),
        ("mode,network,batch,ms\nMAXN,vgg16,8,0.05\n", "vgg16 took 0.05 ms"),
        ("mode,network,ms,power_w\nMAXN,a,5,900\n", "has more than 300 W"),
        ("mode,network,ms,power_w\nMAXN,a,5,1e9\n", "a power lies between 1 mW and 1 MW"),
        ("mode,network,ms,energy_j\nMAXN,a,5,1e9\n", "a power lies between"),
        ("mode,network,s\nMAXN,a,1e20\n", "a time lies between"),
        ("mode,network,time_s\nMAXN,a,1e20\n", "a time lies between 1 ns and 1,000,000 s"),
        ("mode,network,ms\nMAXN,a,0.0000001\n", "a time lies between 1 ns and 1,000,000 s"),
        ("mode,network,batch,fps\nMAXN,a,1,1e12\n", "a throughput lies between"),
        ("mode,network,ms,gpu_mhz\nMAXN,a,5,1300500000\n", "a clock lies between"),
        ("mode,fp32_tflops\nMAXN,1e9\n", "a rate of work lies between"),
        ("mode,launch_us\nMAXN,1e-6\n", "a time lies between 1 ns"),
    ],
)
def test_what_is_impossible_is_refused_by_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as raised:
        keep(tmp_path, text)
    assert "line 2" in str(raised.value)
    assert not (tmp_path / "runs/published").exists()


@pytest.mark.parametrize("share", [1e23, 101.0])
def test_a_share_above_1_is_refused(tmp_path: Path, share: float) -> None:
    layers = [
        {"count": 10},
        {"name": "a", "timeMs": 1, "averageMs": 0.1, "medianMs": 0.1, "percentage": share},
    ]
    with pytest.raises(InputError, match="a share lies between 0 and 1"):
        keep(tmp_path, json.dumps(layers), fixed=FIXED)


# Two meters.


@pytest.mark.parametrize(
    "text",
    [
        "mode,network,batch,ms,nvml_power_w,ina_power_w\nMAXN,net,1,5,21.9,38.1\n",
        "mode,network,batch,ms,meter,power_w\nMAXN,net,1,5,nvml,21.9\nMAXN,net,1,5,ina,38.1\n",
    ],
)
def test_meters_that_differ_are_kept_and_none_is_chosen(tmp_path: Path, text: str) -> None:
    # 38.1 / 21.9 = 1.740.
    notes = keep(tmp_path, text)
    published = read_published(tmp_path / "runs")
    assert len(notes) == len(published.runs)
    assert all("differ by 74%; none is chosen" in (run.remark or "") for run in published.runs)
    assert set(published_observations(published)["power_w"].to_list()) == {None}
    said = {run.power_w for run in published.runs} | set(published.runs[0].figures.values())
    assert {21.9, 38.1} <= said


def test_a_power_that_lies_apart_from_its_repeats_is_not_used(tmp_path: Path) -> None:
    rows = "".join(f"MAXN,n,5,{at},{watts}\n" for at, watts in enumerate((60, 10, 10.2, 9.9)))
    (note,) = keep(tmp_path, f"mode,network,ms,repeat,power_w\n{rows}")
    assert "its power: repeat 1 of 4 has 60.00" in note
    powers = published_observations(read_published(tmp_path / "runs"))["power_w"].to_list()
    assert powers == [None, 10.0, 10.2, 9.9]


def test_a_power_far_above_that_of_its_mode_is_not_used(tmp_path: Path) -> None:
    # Twice 15 W is 30 W.
    text = "mode,network,batch,time_ms,power_w\n15W,net,1,9,29\n15W,other,1,9,31\n"
    notes = keep(tmp_path, text)
    rows = published_observations(read_published(tmp_path / "runs"))
    assert dict(rows.select("network", "power_w").iter_rows()) == {"net": 29.0, "other": None}
    assert "is over 2 times the nominal power of 15W" in " ".join(notes)


def test_a_row_of_two_tables_counts_once(tmp_path: Path) -> None:
    head, row = "mode,network,batch,time_ms,power_w\n", "15W,net,1,9,9.8\n"
    keep(tmp_path, head + row)
    keep(tmp_path, f"{head}{row}30W,net,1,6,14\n")
    assert sorted(filter(None, times_s(tmp_path))) == pytest.approx([0.006, 0.009])


def test_meters_that_agree_are_repeats(tmp_path: Path) -> None:
    assert keep(tmp_path, "mode,network,ms,nvml_w,ina_w\n15W,n,5,20,20.4\n") == []
    (run,) = read_published(tmp_path / "runs").runs
    assert run.power_w == pytest.approx(20.2)  # the mean of both
    assert run.remark is None


def test_rows_of_meters_that_agree_are_repeats(tmp_path: Path) -> None:
    table = "mode,network,ms,meter,power_w\nMAXN,n,5,a,20\nMAXN,n,5,b,20.5\n"
    keep(tmp_path, table)
    powers = published_observations(read_published(tmp_path / "runs"))["power_w"].to_list()
    assert powers == [20.0, 20.5]


# Bound by the host.

LOG = """&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --loadEngine=m.plan
[10/03/2024-10:47:59] [I] === Performance summary ===
[10/03/2024-10:47:59] [I] Enqueue Time: min = 2.7 ms, max = 15 ms, mean = 7.6 ms, median = {} ms
[10/03/2024-10:47:59] [I] GPU Compute Time: min = 5.3 ms, max = 13 ms, mean = 7.6 ms, median = 7 ms
[10/03/2024-10:47:59] [W] * GPU compute time is unstable, with coefficient of variance = 24.9%.
"""


def exported(enqueue_ms: float) -> str:
    query = {"startEnqMs": 1.0, "endEnqMs": 1.0 + enqueue_ms, "computeMs": 7.0, "latencyMs": 8.0}
    return json.dumps([query, query])


def summary(enqueue_ms: float) -> str:
    times = {"Enqueue Time": [2.7, 15, 7.6, enqueue_ms], "GPU Compute Time": [5.3, 13, 7.6, 7.0]}
    return json.dumps({"performance_summary": times})


@pytest.mark.parametrize("text", [LOG.format(7.87), exported(7.87), summary(7.87)])
def test_a_time_that_is_bound_by_the_host_is_none_of_the_gpu(tmp_path: Path, text: str) -> None:
    (note,) = keep(tmp_path, text, fixed=FIXED)
    assert "bound by the host (enqueue 7.87 > compute 7 ms)" in note
    (run,) = read_published(tmp_path / "runs").runs
    assert run.latency_s == 0.007
    assert run.figures["enqueue_s"] == pytest.approx(7.87e-3)
    assert times_s(tmp_path) == [None]


@pytest.mark.parametrize(
    ("enqueue_ms", "remark"),
    [
        # Of a compute time of 7 ms: 0.97, 0.93 and 0.76.
        ("6.8", "bound by the host (enqueue 6.8 ≈ compute 7 ms), unstable (varies by 24.9%)"),
        (
            "6.5",
            "perhaps bound by the host (enqueue 6.5, compute 7 ms), unstable (varies by 24.9%)",
        ),
        ("5.3", "unstable (varies by 24.9%)"),
    ],
)
def test_what_trtexec_warns_of_is_the_remark_of_its_row(
    tmp_path: Path, enqueue_ms: str, remark: str
) -> None:
    keep(tmp_path, LOG.format(enqueue_ms), fixed=FIXED)
    (run,) = read_published(tmp_path / "runs").runs
    assert run.remark == remark
    assert times_s(tmp_path) == [None if "≈" in remark else 0.007]


def test_the_least_time_is_a_lower_estimate_of_the_gpu(tmp_path: Path) -> None:
    (note,) = keep(tmp_path, LOG.format(7.87), fixed=FIXED)
    assert "a lower estimate of the GPU's own time is its least, 5.3 ms; kept, but not used" in note


@pytest.mark.parametrize("text", [LOG.format(6.5), exported(0.03), summary(0.03)])
def test_a_host_that_is_ahead_of_the_gpu_gives_its_time(tmp_path: Path, text: str) -> None:
    assert keep(tmp_path, text, fixed=FIXED) == []
    assert times_s(tmp_path) == [0.007]


@pytest.mark.parametrize(
    "device", ["Orin Nano", "AGX Orin 64GB", "orin nx", "a board of nobody", "NVIDIA A100"]
)
def test_a_device_that_may_be_several_modules_or_none_is_checked_as_such(
    tmp_path: Path, device: str
) -> None:
    origin = api.TableOrigin(citation="A. Author, 2026", device=device)
    assert keep(tmp_path, "mode,network,ms\nM,resnet50,9\n", origin=origin) == []
    # 900 TFLOP/s of fp32: above any of these boards, and of others nothing is known.
    notes = keep(tmp_path, "mode,fp32_tflops\nM,900\n", origin=origin)
    assert bool(notes) == ("orin" in device.casefold())
