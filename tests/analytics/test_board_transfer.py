"""Which times are carried over from which board, and what is said where none can be."""

from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.data.names import ZOO_SIDES, engine_kind, plain_network
from mansard.analytics.data.published.recordings import recording_frame, shipped_recordings
from mansard.analytics.models.predict.board_transfer import (
    Transfers,
    next_anchors,
    transfer_times,
)
from mansard.estimator import zoo

HERE = "my board"
KEY = ["device", "network", "batch", "precision", "phase"]


def rows(board: str, times_ms: dict[str, float], **other: object) -> list[dict[str, object]]:
    same = {"mode": "MAXN", "engine": "tensorrt", "batch": 1, "precision": "fp16"}
    same |= {"phase": "inference", "source": "measured"}
    return [
        {"board": board, "network": network, "time_s": time_ms / 1e3, **same, **other}
        for network, time_ms in times_ms.items()
    ]


def wanted(*networks: str, precision: str = "fp16") -> pl.DataFrame:
    values = [(HERE, network, 1, precision, "inference") for network in networks]
    return pl.DataFrame(values, schema=KEY, orient="row")


def transfer(*parts: list[dict[str, object]], ask: pl.DataFrame) -> Transfers:
    return transfer_times(recorded(*parts), ask)


def recorded(*parts: list[dict[str, object]]) -> pl.DataFrame:
    return recording_frame(pl.DataFrame([row for part in parts for row in part]))


def test_a_network_takes_what_the_line_through_the_anchor_says() -> None:
    # As in test_board_line: 10 ms there are 20 ms here, so 40 ms there are 88.37 ms here.
    there = rows("theirs", {"a_640": 10, "b_640": 40})
    found = transfer(rows(HERE, {"A-640": 20}), there, ask=wanted("b_640", "c_640", "A-640"))
    (row,) = found.times.to_dicts()
    assert (row["device"], row["mode"], row["network"]) == (HERE, "MAXN", "b_640")
    assert row["transfer_s"] == pytest.approx(0.08837, rel=1e-4)
    assert row["transfer_half"] == pytest.approx(0.58201, rel=1e-3)
    said = "through A-640 measured on both; such times were off 8% (median), 30% (nine of ten)"
    assert row["transfer_note"] == f"by its time on theirs, {said}"
    assert found.notes == (f"{HERE}: b_640 by times on theirs, {said}",)


def test_the_board_with_the_narrowest_interval_counts() -> None:
    # "near" is as fast as this board, "far" eight times: its prior of the scatter is wider.
    here = rows(HERE, {"a_640": 20})
    far, near = rows("far", {"a_640": 2.5, "b_640": 5}), rows("near", {"a_640": 20, "b_640": 44})
    (row,) = transfer(here, far, near, ask=wanted("b_640")).times.to_dicts()
    assert row["transfer_s"] == pytest.approx(0.044)
    assert "on near" in row["transfer_note"]


@pytest.mark.parametrize(
    "other", [{"engine": "onnxruntime cuda"}, {"precision": "int8"}, {"batch": 8}]
)
def test_another_engine_precision_or_batch_is_no_anchor(other: dict[str, object]) -> None:
    here = rows(HERE, {"a_640": 20}, **other)
    assert transfer(
        here, rows("theirs", {"a_640": 10, "b_640": 40}), ask=wanted("b_640")
    ).times.is_empty()


def test_simulated_times_stay_among_simulated_boards() -> None:
    here, there = rows(HERE, {"a_640": 20}), rows("theirs", {"a_640": 10, "b_640": 40})
    simulated = rows("made up", {"a_640": 10, "b_640": 40}, source="simulated")
    found = transfer(here, simulated, ask=wanted("b_640"))
    assert (found.times.height, found.notes) == (0, ())
    unreal = rows(HERE, {"a_640": 20}, source="simulated")
    assert transfer(unreal, there, ask=wanted("b_640")).times.is_empty()
    assert transfer(unreal, simulated, ask=wanted("b_640")).times.height == 1


def test_a_network_in_two_precisions_is_not_in_two_sizes() -> None:
    here = rows(HERE, {"a": 20})
    there = rows("theirs", {"b": 40}), rows("theirs", {"b": 60}, precision="fp32")
    (note,) = transfer(here, *there, ask=wanted("b")).notes or ("",)
    assert "image sizes" not in note


def test_a_network_measured_in_the_mode_is_not_carried_over() -> None:
    here = rows(HERE, {"a_640": 20, "b_640": 90})
    found = transfer(here, rows("theirs", {"a_640": 10, "b_640": 40}), ask=wanted("b_640"))
    assert (found.times.height, found.notes) == (0, ())


def test_without_an_anchor_the_network_to_measure_is_named() -> None:
    there = rows("theirs", {"a_640": 1, "b_640": 10, "c_640": 100, "d_640": 11})
    here = rows(HERE, {"other_224": 3})
    found = transfer(here, there, ask=wanted("a_640", "b_640", "c_640"))
    assert found.times.is_empty()
    assert found.notes == (
        f"{HERE}: a_640, b_640, c_640 are recorded on theirs by tensorrt, and no network was "
        "measured on both boards: measure b_640 next, and --calibrate carries times over from "
        "there",
    )
    # Of one network alone: measuring it would need no other board.
    (note,) = transfer(here, there, ask=wanted("b_640")).notes
    assert "measure d_640 next" in note


def test_the_next_anchor_of_a_plan_counts_those_before() -> None:
    there = rows("theirs", {"a_640": 1, "b_640": 10, "c_640": 12, "d_640": 14})
    both = recorded(rows(HERE, {"a_640": 3}), there)
    ask = wanted("a_640", "b_640", "c_640", "d_640").drop("device")
    (anchor,) = next_anchors(both, HERE, ask)
    # With a and d (ln 0 and 2.639) the sum of sqrt(1 + 1/2 + away^2 / spread) over b and c, which
    # are 0.983 and 1.165 from the middle, is 1.310 + 1.343; with c it is 1.332 + 1.406 of b and d.
    assert (anchor.network, anchor.wanted) == ("d_640", ("b_640", "c_640", "d_640"))
    assert "and 1 network was measured on both boards: measure d_640 next" in anchor.text
    # Before anything is measured on the board, by whatever engine.
    (first,) = next_anchors(recorded(there), HERE, ask)
    assert (first.network, first.n_anchors) == ("b_640", 0)
    assert next_anchors(both, HERE, ask.clear()) == ()


def test_a_name_without_a_size_is_that_of_the_only_recorded_one() -> None:
    here = rows(HERE, {"resnet18": 2})
    there = rows("theirs", {"ResNet18_224": 1, "ResNet50_224": 3, "yolo_320": 4, "yolo_640": 9})
    found = transfer(here, there, ask=wanted("resnet50", "yolo"))
    assert found.times["network"].to_list() == ["resnet50"]
    assert found.notes[1] == (
        f"{HERE}: yolo is recorded on other boards in 2 image sizes: end the name of its file in "
        "the size, as yolo_640"
    )


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("YOLOv8n-640", ("yolov8n", 640)),
        ("yolov8n_640x640", ("yolov8n", 640)),
        ("yolov8s", ("yolov8s", 640)),
        ("yolov8m", ("yolov8m", None)),
        ("resnet_101", ("resnet101", None)),
        ("resnet-152", ("resnet152", None)),
        ("MobileNetV3-small", ("mobilenetv3small", None)),
        ("mobilenet_v3_small 224", ("mobilenetv3small", 224)),
    ],
)
def test_names_of_networks_and_their_sizes(name: str, plain: tuple[str, int | None]) -> None:
    assert plain_network(name) == plain


def test_the_zoos_networks_have_the_sides_that_their_names_stand_for() -> None:
    for name, side_px in ZOO_SIDES.items():
        assert zoo.entry(name).input.endswith(f"[batch, 3, {side_px}, {side_px}]")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("TensorRT", "tensorrt"),
        ("trtexec of TensorRT 10.3.0: median GPU compute time", "tensorrt"),
        ("tensorrt DLA 0", "tensorrt dla"),
        ("onnxruntime cpu 1 thread", "onnxruntime cpu"),
        ("onnxruntime tensorrt graph", "onnxruntime tensorrt"),
        ("PyTorch eager", "pytorch"),
        ("llama.cpp", "llama cpp"),
        (None, None),
        ("  ", None),
    ],
)
def test_kinds_of_engines(words: str | None, kind: str | None) -> None:
    assert engine_kind(words) == kind


def test_what_ships_has_eleven_boards_and_no_network_twice() -> None:
    shipped = shipped_recordings()
    assert shipped["board"].n_unique() == 11
    assert shipped.height == shipped.unique(["board", "plain", "side_px"]).height == 657
    assert set(shipped["engine"]) == {"tensorrt"}
    assert shipped["side_px"].null_count() == 0
