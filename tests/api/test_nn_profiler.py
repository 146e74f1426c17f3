"""Files in the layout of NN-Profiler, against a schema written from its documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pytest

from mansard.core.records import EnergyWindow, Measurement, NetworkPart, RailEnergy
from reproductions.nn_profiler.__main__ import main
from reproductions.nn_profiler.layers import mode_files
from tests.analytics.factory import measurement, write_networks

# README.md of Varatheepan/NN-Profiler, "Post process data": network, device, parameter, layer. A
# power is a dictionary of rails in mW, a latency a number of seconds; layers are numbers as text.
Rails: TypeAlias = dict[str, float]


class Device(msgspec.Struct, forbid_unknown_fields=True):
    latency: dict[str, float]
    power: dict[str, Rails] = {}


ModeFile: TypeAlias = dict[str, dict[Literal["cpu", "gpu"], Device]]

README_EXAMPLE = b"""{
 "efficientnet_b2": {
  "gpu": {
   "power": {"0": {"VDD_SYS_GPU": 234.62}, "1": {"VDD_SYS_GPU": 1228.79}},
   "latency": {"0": 0.014187506437301635, "1": 0.006302738189697265}
  },
  "cpu": {
   "power": {"0": {"VDD_SYS_CPU": 1151.52}},
   "latency": {"0": 0.052880855798721316, "1": 0.20610104918479918}
  }
 }
}"""


NUMBERS = {"MAXN": 0, "10W": 1, "15W": 2}


def decode(content: bytes) -> ModeFile:
    found: ModeFile = msgspec.json.decode(content, type=ModeFile)
    for devices in found.values():
        for device in devices.values():
            assert all(layer == str(int(layer)) for layer in (*device.latency, *device.power))
    return found


def written(runs: Path, folder: Path) -> Path:
    """The file of the only mode."""
    assert main(["write", str(runs), str(folder)]) == 0
    (path,) = folder.glob("Mode*.json")
    return path


def window(rails: dict[str, float | None], window_s: float = 2.0) -> EnergyWindow:
    return EnergyWindow(
        start_s=0.0,
        window_s=window_s,
        repetitions=100,
        total_j=1.0,
        rails=tuple(
            RailEnergy(
                rail=name,
                energy_j=energy_j,
                n_samples=50,
                n_changed=40,
                n_gaps=0,
                step_w=None,
                unknown={"step_w": "not told", "error_j": "not a counter"}
                | ({} if energy_j is not None else {"energy_j": "too few readings"}),
            )
            for name, energy_j in rails.items()
        ),
        unknown=dict.fromkeys(("error_j", "is_settled", "disturbed_s"), "not recorded"),
    )


def layer(number: int, seconds_s: tuple[float, ...], **changes: Any) -> Measurement:
    part = NetworkPart(
        whole="resnet50",
        whole_hash="h",
        kind="layer",
        number=number,
        n_parts=2,
        nodes=(number,),
        op_types=("Conv",),
    )
    return measurement("r", seconds_s, model=f"resnet50 layer {number}", part=part, **changes)


def test_the_example_of_its_document_fits_the_schema() -> None:
    found = decode(README_EXAMPLE)
    assert found["efficientnet_b2"]["gpu"].power["1"] == {"VDD_SYS_GPU": 1228.79}


def test_layers_become_network_device_parameter_layer() -> None:
    # 2.46 J and 2.50 J in 2 s each: 1230 and 1250 mW, the median of both 1240.
    energy = (window({"VDD_SYS_GPU": 2.46}), window({"VDD_SYS_GPU": 2.50}))
    rows = [
        ("tx2", "MAXN", layer(0, (0.002, 0.004, 0.003), processor="gpu", energy=energy)),
        ("tx2", "MAXN", layer(1, (0.5,), processor="gpu")),
        ("tx2", "MAXN", layer(0, (0.05,), processor="cpu")),
        ("tx2", "15W", layer(0, (0.06,), processor="cpu")),
    ]
    files = mode_files(rows, NUMBERS)
    assert list(files) == ["Mode0.json", "Mode2.json"]
    found = decode(files["Mode0.json"])
    assert list(found) == ["resnet50"]
    assert found["resnet50"]["gpu"].latency == {"0": 0.003, "1": 0.5}
    assert found["resnet50"]["gpu"].power == {"0": {"VDD_SYS_GPU": pytest.approx(1240.0)}}
    assert found["resnet50"]["cpu"].latency == {"0": 0.05}
    assert decode(files["Mode2.json"])["resnet50"]["cpu"].latency == {"0": 0.06}


def test_a_rail_that_a_window_does_not_know_is_not_in_the_file() -> None:
    energy = (window({"VDD_IN": 8.0, "VDD_SOC": None}), window({"VDD_IN": 8.0, "VDD_SOC": 2.0}))
    (content,) = mode_files([("nx", "10W", layer(0, (0.01,), energy=energy))], NUMBERS).values()
    assert decode(content)["resnet50"]["cpu"].power == {"0": {"VDD_IN": 4000.0}}


def test_whole_networks_and_failed_layers_are_not_in_the_file() -> None:
    rows = [("nx", "10W", measurement("r", (0.1,))), ("nx", "10W", layer(0, ()))]
    assert mode_files(rows, NUMBERS) == {}


def test_two_batch_sizes_are_two_networks() -> None:
    rows = [("nx", "10W", layer(0, (0.01,), batch=batch)) for batch in (1, 8)]
    (content,) = mode_files(rows, NUMBERS).values()
    assert list(decode(content)) == ["resnet50 batch 1", "resnet50 batch 8"]


def test_two_boards_do_not_write_over_one_another() -> None:
    rows = [(board, "10W", layer(0, (0.01,))) for board in ("nx one", "nx/two")]
    assert list(mode_files(rows, NUMBERS)) == ["nx_one-Mode1.json", "nx_two-Mode1.json"]


def test_networks_of_several_commands_are_in_one_file(tmp_path: Path) -> None:
    """Each command has a run of its own in the folder of runs."""
    first = layer(0, (0.01,))
    other = msgspec.structs.replace(first.part, whole="alexnet", whole_hash="i")
    rows = [
        first,
        msgspec.structs.replace(layer(0, (0.02,)), part=other),
        layer(0, (0.03,), threads=1),
    ]
    for number, row in enumerate(rows):
        run_id = str(number) * 16
        write_networks(tmp_path / "runs", [msgspec.structs.replace(row, run_id=run_id)])
    path = written(tmp_path / "runs", tmp_path / "out")
    assert {name: one["cpu"].latency for name, one in decode(path.read_bytes()).items()} == {
        "resnet50 onnxruntime cpu": {"0": 0.01},
        "alexnet": {"0": 0.02},
        "resnet50 onnxruntime cpu 1 thread": {"0": 0.03},
    }


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    write_networks(tmp_path / "runs", [layer(0, (0.01,))])
    path = written(tmp_path / "runs", tmp_path / "out")
    assert decode(path.read_bytes())
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert names == {"Mode0.json", ".mansard-files.json"}
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    assert main(["write", str(tmp_path / "runs"), str(tmp_path / "file")]) == 1
    assert (tmp_path / "file").read_text(encoding="utf-8") == "no folder"
