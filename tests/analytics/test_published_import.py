"""Tables that others wrote: what is read, in which unit, and what is refused and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mansard.analytics.data.published.cells import MOST_BYTES
from mansard.analytics.data.published.columns import find_columns
from mansard.analytics.data.published.doubts import doubt_notes
from mansard.analytics.data.published.importing import Imported, import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.models.roofs.published_rooflines import find_module
from mansard.core.errors import InputError, UsageError

ORIGIN = PublishedOrigin(device="Jetson AGX Orin 64GB", processor="gpu", citation="A. Author, 2026")


def read(
    tmp_path: Path,
    text: str | bytes,
    said: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> Imported:
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_table(path, ORIGIN, said=said, fixed=fixed)


def test_rates_of_a_mode_in_si_units(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "mode,precision,unit,GFLOP/s,GB/s,gpu_mhz,EMC (MHz),SMs,method\n"
        "15W,fp16,tensor,2642.2,81.184,408,2133,6,cuBLAS\n",
    )
    peak, bandwidth = found.rates
    assert (peak.quantity, peak.subject, peak.unit, peak.value) == (
        *("peak", "fp16", "tensor core"),
        2.6422e12,  # 2642.2 GFLOP/s
    )
    assert (bandwidth.quantity, bandwidth.subject, bandwidth.value) == (
        *("bandwidth", "DRAM"),
        8.1184e10,  # 81.184 GB/s
    )
    assert (peak.mode.name, peak.mode.gpu_hz, peak.mode.memory_hz) == ("15W", 408e6, 2133e6)
    assert (peak.mode.n_sms, peak.method, peak.citation) == (6, "cuBLAS", "A. Author, 2026")
    assert peak.mode.unknown["cpu_hz"] == "the table has no such column"
    assert found.ignored == ()


def test_runs_of_networks(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "power_mode,model,bs,latency_ms,latency_std_ms,p99_ms,power_mw,idle_w\n"
        "MAXN,resnet50,16,51.56,0.2,55,53541,9\n"
        "MAXN,resnet50,32,100.98,0.2,110,-,9\n",
    )
    first, second = found.runs
    assert (first.network, first.batch) == ("resnet50", 16)
    assert first.power_w == pytest.approx(53.541, rel=1e-12)
    assert first.latency_s == pytest.approx(0.05156, rel=1e-12)
    assert (second.power_w, second.unknown["power_w"]) == (None, "the table leaves it empty")
    assert first.unknown["precision"] == "the table has no such column"
    assert first.figures == pytest.approx({"deviation_s": 0.2e-3, "p99_s": 0.055})
    assert found.ignored == ("idle_w",)


def test_images_a_second_and_energy(tmp_path: Path) -> None:
    # 8 images at 400 a second: 20 ms; 0.5 J in 20 ms: 25 W.
    (run,) = read(tmp_path, "mode,network,batch,fps,energy_mj\nMAXN,a,8,400,500\n").runs
    assert (run.latency_s, run.power_w) == (0.02, 25.0)


def test_a_wide_table(tmp_path: Path) -> None:
    rates = read(
        tmp_path, "mode,fp32_tflops,fp16_tensor_tflops,l2_gb_per_s,dram_gb_per_s\nA,1,4,900,80\n"
    ).rates
    assert [(rate.subject, rate.unit, rate.value) for rate in rates] == [
        ("fp32", "CUDA core", 1e12),
        ("fp16", "tensor core", 4e12),
        ("L2", "", 9e11),
        ("DRAM", "", 8e10),
    ]


def test_columns_that_the_user_names(tmp_path: Path) -> None:
    table = "m,net,observed_time,gpu_latency_ms,t2_ms\n15W,a,7,5,9\n"
    said = {"mode": "m", "network": "net", "time_us": "observed_time"}
    (run,) = read(tmp_path, table, said).runs
    assert run.latency_s == pytest.approx(7e-6, rel=1e-12)
    said = {"mode": "m", "network": "net", "time": "gpu_latency_ms"}
    (run,) = read(tmp_path, table, said).runs
    assert run.latency_s == 0.005


def test_values_that_hold_for_all_rows(tmp_path: Path) -> None:
    fixed = {"mode": "MAXN", "precision": "fp16", "unit": "tensor", "emc_mhz": "3199"}
    (rate,) = read(tmp_path, "gflops,x\n5325.7,1\n", fixed=fixed).rates
    assert (rate.mode.name, rate.subject, rate.mode.memory_hz) == ("MAXN", "fp16", 3199e6)
    with pytest.raises(UsageError, match="would hide the column"):
        read(tmp_path, "mode,gflops\nA,1\n", fixed={"mode": "B"})
    with pytest.raises(UsageError, match="'weather' is nothing that a table holds"):
        read(tmp_path, "mode,gflops\nA,1\n", fixed={"weather": "fine"})


@pytest.mark.parametrize(
    "data",
    [
        "mode,GB/s\n15W,80\n",
        "\ufeffmode,GB/s\r\n15W,80\r\n",
        "# a comment\n\nmode\tGB/s\n15W\t80\n",
        "mode;GB/s;\n15W;80,0;\n",
        "mode|GB/s\n15W|80\n",
        "mode,GB/s\n15W,80\n".encode("utf-16"),
    ],
)
def test_separators_and_encodings(tmp_path: Path, data: str | bytes) -> None:
    (rate,) = read(tmp_path, data).rates
    assert rate.value == 8e10


def test_the_same_table_has_the_same_id(tmp_path: Path) -> None:
    table = "mode,GB/s\n15W,80\n30W,128\n"
    first, again = read(tmp_path, table), read(tmp_path, "\ufeff" + table.replace(",", ";"))
    other = read(tmp_path, table.replace("128", "129"))
    assert first.table_id == again.table_id
    assert first.table_id != other.table_id
    assert {rate.table_id for rate in first.rates} == {first.table_id}


REFUSED = {
    "": "is empty",
    "mode,GB/s\n": "has a header and no rows",
    "nothing at all\n": "its first line is one column",
    "mode,mode,GB/s\na,b,1\n": "the column 'mode' more than once",
    "mode,,GB/s\na,b,1\n": "a column without a name",
    "mode,GB/s\n15W,80,9\n": "line 2 has 3 cells, its header 2",
    'mode,GB/s\n"15W,80\n': "cannot read line",
    "mode,GB/s\n15W,-3\n": "line 2: GB/s is -3, and must be above 0",
    "mode,GB/s\n15W,0\n": "line 2: GB/s is 0, and must be above 0",
    "mode,GB/s\n15W,80\n30W,nan\n": "line 3: GB/s is nan, and must be above 0",
    "mode,GB/s\n15W,inf\n": "line 2: GB/s is inf",
    "mode,GB/s\n15W,1_000\n": "'1_000', which is not a number",
    "mode,GB/s\n15W,fast\n": "'fast', which is not a number",
    "mode;GB/s\n15W;1,234\n": "'1,234', which may be read in two ways",
    "mode,GB/s\n15W,1e300\n": "which is impossible: a bandwidth lies between",
    "mode,GB/s\n15W,\n": "line 2: has no figure",
    "mode,GB/s\n,80\n": "line 2: mode is empty",
    "GB/s,x\n80,1\n": "the table has no column for the mode",
    "mode,precision,gflops\n15W,fp16,1\n": "fp16 may be of tensor cores or of CUDA cores",
    "mode,precision,gflops\n15W,fp17,1\n": "unknown precision 'fp17'",
    "mode,gflops\n15W,1\n": "no column for the precision",
    "mode,bandwidth\n15W,80\n": "'bandwidth' seems to be the bandwidth, and says no unit",
    "mode,bandwidth_gbps\n15W,80\n": "may count bits or bytes",
    "mode,Gb/s\n15W,80\n": "may count bits or bytes",
    "mode,flops\n15W,80\n": "'flops' seems to be the peak, and says no unit",
    "mode,GB/s,gb_per_s\n15W,80,81\n": "the bandwidth may be in 'GB/s' or 'gb_per_s'",
    "mode,weather\n15W,fine\n": "no column is a rate or names networks",
    "mode,GB/s\n15W,80\n15W,81\n": "lines 2 and 3 both give the bandwidth of DRAM in mode '15W'",
    "mode,precision,gflops,gpu_mhz\n15W,fp32,1,408\n15W,tf32,2,409\n": "lines 2 and 3 give mode",
    "mode,network,time\nA,b,3\n": "'time' seems to be the time, and says no unit",
    "mode,network,batch\nA,b,3\n": "no column is a time, a power or an energy",
    "mode,network,fps\nA,b,3\n": "images a second are no time without the batch",
    "mode,network,energy_j\nA,b,3\n": "an energy without a time gives no power",
    "mode,network,time_s,power_w,energy_j\nA,b,2,10,30\n": "is 15 W, its power 10 W",
    "mode,network,batch,time_s,fps\nA,b,8,1,10\n": "images a second is 0.8 s, its time 1 s",
    "mode,network,idle_power_w\nA,b,3\n": "no column is a time, a power or an energy",
    "mode,network,batch,time_s\nA,b,1.5,2\n": "batch is 1.5, no whole number",
    "mode,network,batch,time_s\nA,b,9e18,2\n": "batch is 9e18, no whole number",
    "mode,network,time_s\nA,b,2\nA,b,3\n": "lines 2 and 3 are both 'b', no batch, no precision",
    "mode,network,time_s,phase\nA,b,2,sleeping\n": "unknown phase 'sleeping'",
    "mode,network,time_s\nA,,2\n": "line 2: network is empty",
    f"mode,network,time_s\nA,{'x' * 300},2\n": "network has 300 characters",
    f"mode,network,time_s\nA,{'x' * 3000},2\n": "line 2 has a cell of 3,000 characters",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_says_why_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert REFUSED[text] in str(caught.value)
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"mode,GB/s\n15W\xe9,80\n", "is not UTF-8 text"),
        (b"\xff\xfem", "is not UTF-16 text"),
        (b"mode,GB/s\n15W,8\x000\n", "is not text"),
        (b"x" * (MOST_BYTES + 1), "more than the 8,388,608 that a table may have"),
    ],
)
def test_bytes_that_are_no_table(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, data)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "<script>\x1b[31m\u202eevil"
    (run,) = read(tmp_path, f"mode,network,time_s\n{name},{name},2\n").runs
    assert run.network == name  # escaped where it is shown
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"mode,network,time_s\n{name},{name},2\n{name},{name},3\n")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("key", ["nonsense", "time_parsecs", "bandwidth_ms", "mode_ms", ""])
def test_fields_that_are_none(key: str) -> None:
    with pytest.raises(UsageError):
        find_columns(["mode", "x"], {key: "x"}, "t.csv")


def test_a_field_without_its_column() -> None:
    with pytest.raises(UsageError, match="has no column 'y'"):
        find_columns(["mode", "x"], {"time_ms": "y"}, "t.csv")
    columns, rest = find_columns(["mode", "network", "energy"], {"energy": ""}, "t.csv")
    assert [column.field for column in columns] == ["mode", "network"]
    assert rest == ("energy",)


@pytest.mark.parametrize(
    ("name", "field", "factor"),
    [
        ("GFLOP/s", "peak", 1e9),
        ("gflops", "peak", 1e9),
        ("Peak (TFLOPS)", "peak", 1e12),
        ("mflop_per_s", "peak", 1e6),
        ("int8 TOPS", "peak", 1e12),
        ("GB/s", "bandwidth", 1e9),
        ("stream_gb_per_s", "bandwidth", 1e9),
        ("GBps", "bandwidth", 1e9),
        ("MiB/s", "bandwidth", 1_048_576.0),
        ("latency [µs]", "time", 1e-6),
        ("mean_time_s", "time", 1.0),
        ("launch_us", "launch", 1e-6),
        ("power_mw", "power", 1e-3),
        ("POWER_MW", "power", 1e-3),
        ("power_limit_w", "power_limit", 1.0),
        ("energy (mJ)", "energy", 1e-3),
        ("GPU clock, MHz", "gpu", 1e6),
        ("emc_khz", "emc", 1e3),
        ("img/s", "throughput", 1.0),
        ("throughput_inf_s", "throughput", 1.0),
        ("peak_bw_gb_s", "bandwidth", 1e9),
        ("energy per batch (mJ)", "energy", 1e-3),
        # A quantity over its unit, as ISO 80000-1 writes the head of a column
        ("time/ms", "time", 1e-3),
        ("time / s", "time", 1.0),
        ("latency/µs", "time", 1e-6),
        ("t/ms", "time", 1e-3),
        ("power/W", "power", 1.0),
        ("P_avg/mW", "power", 1e-3),
        ("energy/mJ", "energy", 1e-3),
        ("bandwidth/(GB/s)", "bandwidth", 1e9),
        ("memory bandwidth / GB/s", "bandwidth", 1e9),
        ("GPU clock/MHz", "gpu", 1e6),
        ("throughput/fps", "throughput", 1.0),
        ("power limit/W", "power_limit", 1.0),
        ("latency [ms]", "time", 1e-3),
        ("Power(W)", "power", 1.0),
        ("mW", "power", 1e-3),
        ("GPU Freq (MHz)", "gpu", 1e6),
    ],
)
def test_units_in_names(name: str, field: str, factor: float) -> None:
    ((column,), _) = find_columns([name], {}, "t.csv")
    assert (column.field, column.factor) == (field, factor)


@pytest.mark.parametrize(
    "name",
    [
        *("GFLOPS/W", "tok_per_j", "ms per layer", "gpu_power_w", "VDD_SOC mW"),
        *("tokens_per_s", "output_tok_s", "requests/s", "iter_s"),
        *("fps/W", "images/J", "gpu power/W", "idle power/W"),
    ],
)
def test_what_is_no_quantity_of_a_run_is_not_read(name: str) -> None:
    assert find_columns([name], {}, "t.csv") == ((), (name,))
    with pytest.raises(InputError, match="seems to be the throughput"):
        find_columns(["throughput_ms"], {}, "t.csv")


def test_performance_over_watts_is_no_power() -> None:
    with pytest.raises(InputError, match="'perf/W' seems to be the peak, and says no unit"):
        find_columns(["perf/W"], {}, "t.csv")


def test_the_index_that_pandas_writes_is_not_read(tmp_path: Path) -> None:
    plain = read(tmp_path, "mode,network,time/ms\n15W,a,3\n")
    for index in ("", "Unnamed: 0"):
        found = read(tmp_path, f"{index},mode,network,time/ms\n0,15W,a,3\n")
        assert found.ignored == ("Unnamed: 0",)
        assert found.runs == plain.runs
    # Where the index is what the table is about, it can be named.
    named = read(tmp_path, ",network,time/ms\n15W,a,3\n", {"mode": "Unnamed: 0"})
    assert named.runs[0].mode.name == "15W"
    with pytest.raises(InputError, match="a column without a name"):
        read(tmp_path, ",Unnamed: 0,mode,GB/s\n0,0,15W,80\n")


def test_repeats_are_kept_where_the_table_tells_them_apart(tmp_path: Path) -> None:
    found = read(tmp_path, "mode,network,rep,time_s\nA,b,1,2\nA,b,2,3\n")
    assert [run.latency_s for run in found.runs] == [2.0, 3.0]
    assert found.ignored == ()
    with pytest.raises(InputError, match="lines 2 and 3 are both 'b'"):
        read(tmp_path, "mode,network,rep,time_s\nA,b,1,2\nA,b,1,3\n")
    # A column that nothing is known of may be another setting: prompts of 128 and 512 tokens.
    with pytest.raises(InputError, match="tells repeats apart with --column repeat=NAME"):
        read(tmp_path, "mode,network,n,time_s\nA,b,1,2\nA,b,2,3\n")
    same = read(tmp_path, "mode,network,n,time_s\nA,b,1,2\nA,b,2,3\n", {"repeat": "n"})
    assert [run.latency_s for run in same.runs] == [2.0, 3.0]


def test_energies_of_one_item_are_not_those_of_a_batch(tmp_path: Path) -> None:
    table = "mode,network,batch,time_ms,energy_per_inference_j\nA,b,1,100,2\n"
    assert read(tmp_path, table).runs[0].power_w == 20.0  # 2 J in 0.1 s
    with pytest.raises(InputError, match="may be of one item or of the batch of 8"):
        read(tmp_path, table.replace("b,1", "b,8"))


def test_modes_without_names_have_their_clocks(tmp_path: Path) -> None:
    table = "model,gpu_freq_hz,emc_mhz,cores,time_ms\na,114750000,1600,4,9\na,216750000,,4,5\n"
    runs = read(tmp_path, table).runs
    assert [run.mode.name for run in runs] == ["gpu114MHz_emc1600MHz_4c", "gpu216MHz_4c"]


def test_figures_above_the_hardware_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, "mode,precision,GFLOP/s,GB/s\nMAXN,fp32,5300,189\n")
    orin = find_module("agx-orin")
    assert list(doubt_notes(found, orin)) == []
    assert list(doubt_notes(found)) == []
    # 16 SMs × 256 FLOP × 1300.5 MHz = 5.327 TFLOP/s; 2 × 3199 MHz × 32 bytes = 204.7 GB/s.
    found = read(tmp_path, "mode,precision,GFLOP/s,GB/s\nMAXN,fp32,5500,250\n")
    assert [note.split(" is above the ")[1] for note in doubt_notes(found, orin)] == [
        "5.327\u00a0TFLOP/s that Jetson AGX Orin 64GB can do: it is TF32 of tensor cores, or the "
        "unit is wrong (1.03 times the limit, 0.26 of the TF32 peak); kept, but not used for "
        "predictions",
        "204.7\u00a0GB/s that Jetson AGX Orin 64GB can do: a cache was measured, or the unit is "
        "wrong (1.22 times the limit); kept, but not used for predictions",
    ]
    with pytest.raises(UsageError, match="did you mean agx-orin"):
        find_module("agx-orion")
