"""Runs of several networks in the layout of NN-Profiler, against its recorded sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.core.errors import InputError, UsageError
from mansard.core.records import EnergyWindow, MultiRun, RailEnergy, Reading
from reproductions.nn_profiler.__main__ import main
from reproductions.nn_profiler.postprocess import PARAMETERS, read_raw
from reproductions.nn_profiler.runs import mode_numbers, processed_files, raw_files
from tests.analytics.test_concurrent_rows import RUN

SAMPLE = "networks/Varatheepan+NN-Profiler__README_multi_dnn_orin_nano_sample.json"
ZONES = ("cpu", "soc2", "soc0", "gpu", "tj", "soc1")
RAILS = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")


def orin_nano() -> MultiRun:
    """One network on one core, on a board with the sensors of an Orin Nano; 6 W on each rail."""
    names = [f"cpu{cpu}_{what}" for cpu in range(6) for what in ("share", "hz")]
    names += ["memory_share", "memory_hz", "gpu_share", "gpu_hz", "memory_bytes", "swap_bytes"]
    names += [f"{zone}-thermal_temperature_c" for zone in ZONES]
    rails = tuple(
        RailEnergy(
            rail=rail,
            energy_j=18.0,
            n_samples=30,
            n_changed=20,
            n_gaps=0,
            step_w=0.04,
            unknown={"error_j": "not a counter"},
        )
        for rail in RAILS
    )
    window = EnergyWindow(
        start_s=0.0,
        window_s=3.0,
        repetitions=30,
        rails=rails,
        total_j=18.0,
        unknown=dict.fromkeys(("error_j", "is_settled", "disturbed_s"), "not recorded"),
    )
    known = {name: why for name, why in RUN.unknown.items() if name != "energy"}
    return replace(
        RUN,
        telemetry=tuple(Reading(name=name, low=0.5, high=1.0, mean=0.75) for name in names),
        energy=window,
        unknown=known,
    )


def written(row: MultiRun) -> dict[str, Any]:
    rows = [("Orin Nano", "15W", row)]
    (content,) = processed_files(raw_files(rows, [], {"15W": 1}), rows).values()
    document: dict[str, Any] = msgspec.json.decode(content)
    return document


def test_stages_times_and_power() -> None:
    found = written(orin_nano())
    # 30 runs in 2.9 s, 0.05 s of copies; 18 J in 3 s are 6 W.
    (stage,) = found["stageSummary"]["a"].values()
    assert stage["infCount"] == 30
    assert stage["avgInfTime"] == pytest.approx(2.9 / 30)
    assert stage["avgTransferTime"] == pytest.approx(0.05 / 30)
    assert found["mapping"] == {"a": {"1": "cpu:0"}}
    assert found["samplingDuration"] == 3.0
    assert found["Tegrastats"]["IN Power"] == 6000.0
    assert found["Tegrastats"]["CPU"]["Utilization"]["max"] == 6 * [100.0]


def test_shares_are_in_percent_and_clocks_in_mhz_to_two_digits() -> None:
    readings = (
        Reading(name="gpu_share", low=0.123456, high=0.987654, mean=0.5),
        Reading(name="gpu_hz", low=306_123_456.0, high=1_234_567_890.0, mean=1e9),
    )
    found = written(replace(orin_nano(), telemetry=readings))["Tegrastats"]["GR3D_FREQ"]
    assert found["Utilization"] == {"min": 12.35, "max": 98.77, "avg": 50.0}
    assert found["Frequencies"] == {"min": 306.12, "max": 1234.57, "avg": 1000.0}


def test_what_is_not_known_is_said_and_stages_on_one_device_are_apart() -> None:
    (stage,) = RUN.stages
    two = replace(RUN, stages=(stage, replace(stage, stage=1, n_runs=0, nodes=(2,))))
    document = written(two)
    assert list(document["stageSummary"]["a"]) == ["cpu:0", "cpu:0#2"]
    assert document["stageSummary"]["a"]["cpu:0#2"]["avgInfTime"] == -1  # no run: as the script
    assert document["Tegrastats"]["RAM"] == "unknown"
    assert document["Tegrastats"]["GR3D_FREQ"] == "unknown"
    assert document["ModelInfo"]["a"]["cpu:0"]["params"] is None
    assert document["ModelInfo"]["a"]["cpu:0"]["macs"] == "unknown"
    known = {name: why for name, why in RUN.unknown.items() if name != "failure"}
    failed = replace(RUN, failure="no", unknown=known)
    assert raw_files([("b", "m", failed)], [], {"m": 0}) == {}


def test_raw_files_have_the_names_and_the_layout_that_the_script_reads() -> None:
    """``Multinet/Mode<N>``, one line, keys and types of MappingDBGenerator.py."""
    first = replace(orin_nano(), started_utc="2026-01-01T00:00:00Z")
    (network,), (stage,) = first.networks, first.stages
    both = replace(
        first,
        started_utc="2026-01-02T00:00:00Z",
        networks=(network, replace(network, model="b")),
        stages=(
            replace(stage, device="gpu"),
            replace(stage, network="b", network_number=1, device="gpu"),
        ),
    )
    whole = replace(both, started_utc="2026-01-03T00:00:00Z",
                    stages=(both.stages[0], replace(both.stages[1], device="cpu")))  # fmt: skip
    rows = [("Orin Nano", "15W", row) for row in (whole, both, first)]
    files = raw_files(rows, [], {"15W": 1})
    assert list(files) == [
        "Multinet/Mode1/SingleNet_Map1_nm_1_set_1_classA.json",
        "Multinet/Mode1/MultiNet_Map2_nm_2_set_2_classB.json",
        "Multinet/Mode1/MultiNet_Map3_nm_2_set_2_classC.json",
    ]
    assert all(content.count(b"\n") == 1 for content in files.values())
    raw = msgspec.json.decode(next(iter(files.values())))
    assert list(raw) == ["mapping", "stageSummary", "power", "samplingDuration"]
    assert raw["stageSummary"]["a"]["cpu:0"]["infDurations"] == [pytest.approx(2.9 / 30)]
    assert set(PARAMETERS["Orin"]) <= set(raw["power"])
    # Six CPUs in a row of readings; each has 50, 100 and 75 per cent at least, most and on average.
    assert {len(row) for row in raw["power"]["CPU"]["Utilization"]} == {6}
    assert list(processed_files(files, rows)) == [
        "Multinet/Processed/Mode1/Mode1_Map1_nm_1_set_1_classA.json",
        "Multinet/Processed/Mode1/Mode1_Map2_nm_2_set_2_classB.json",
        "Multinet/Processed/Mode1/Mode1_Map3_nm_2_set_2_classC.json",
    ]


@settings(max_examples=50)
@given(
    readings=st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.99)), min_size=1, max_size=4
    )
)
def test_least_greatest_and_mean_survive(readings: list[tuple[float, float, float]]) -> None:
    telemetry = []
    for cpu, (one, two, share) in enumerate(readings):
        low, high = sorted((one, two))
        mean = low + share * (high - low)
        telemetry += [
            Reading(name=f"cpu{cpu}_{what}", low=low, high=high, mean=mean)
            for what in ("share", "hz")
        ]
    use = written(replace(RUN, telemetry=tuple(telemetry)))["Tegrastats"]["CPU"]["Utilization"]
    for name, of in (("min", "low"), ("avg", "mean"), ("max", "high")):
        wanted = [100 * getattr(each, of) for each in telemetry[::2]]
        assert use[name] == pytest.approx(wanted, abs=0.011)  # two digits


def test_modes_are_integers_given_or_in_the_order_of_their_names() -> None:
    assert mode_numbers(["MAXN", "15W", "7W", "15W"], {}) == {"7W": 0, "15W": 1, "MAXN": 2}
    assert mode_numbers(["MAXN", "15W"], {"MAXN": 0}) == {"MAXN": 0, "15W": 1}
    with pytest.raises(UsageError, match="two modes have the number 3"):
        mode_numbers(["a", "b"], {"a": 3, "b": 3})
    document = written(orin_nano())
    assert (document["Mode"], document["Device"]) == (1, "Orin")


def test_raw_files_of_a_folder_are_processed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("Orin Nano", "15W", orin_nano())]
    for name, content in raw_files(rows, [], {"15W": 1}).items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(content)
    raw, out = str(tmp_path / "Multinet"), str(tmp_path / "out")
    assert main(["process", raw, out, "--mode", "1"]) == 0
    (path,) = (tmp_path / "out").glob("Mode1_Map1_*.json")
    assert msgspec.json.decode(path.read_bytes()) == written(orin_nano())
    capsys.readouterr()
    for content, message in (
        (b"", "is not a raw file of NN-Profiler"),
        (b"[]", "is not a raw file of NN-Profiler"),
        (b'{"mapping": {}, "stageSummary": {}, "power": {"RAM": []}, "samplingDuration": 1}',
         "is not a raw file of NN-Profiler: division by zero"),
        (b'{"mapping": {}, "stageSummary": {}, "power": {}, "samplingDuration": 1}',
         "has no reading 'RAM'"),
    ):  # fmt: skip
        next(iter((tmp_path / "Multinet/Mode1").iterdir())).write_bytes(content)
        assert main(["process", raw, out, "--mode", "1"]) == 1
        assert message in capsys.readouterr().err
    assert main(["process", raw, out, "--mode", "7"]) == 1
    assert "holds no Mode7 with raw files" in capsys.readouterr().err
    with pytest.raises(InputError, match="holds no Mode0"):
        read_raw(tmp_path, 0, "Orin")


@pytest.mark.shared_data
def test_keys_are_those_of_the_recorded_sample(shared_data: Path) -> None:
    sample = msgspec.json.decode((shared_data / SAMPLE).read_bytes())
    found = written(orin_nano())

    def keys(tree: Any) -> Any:
        return {name: keys(each) for name, each in tree.items()} if isinstance(tree, dict) else {}

    assert list(found) == list(sample)
    assert keys(found["Tegrastats"]) == keys(sample["Tegrastats"])
    for part in ("mapping", "stageSummary", "ModelInfo"):
        (ours,) = found[part]["a"].values()
        theirs = next(iter(sample[part]["resnet50"].values()))
        assert keys(ours) == keys(theirs)
