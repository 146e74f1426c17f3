"""Groups of stages through the API: in partitions of the CPU, marked, and on a DLA."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard import api
from mansard.core.errors import ModelError, UsageError
from mansard.core.records import doubts
from mansard.simulator import create_board
from mansard.sweeps.layers import parse_cpus
from tests.inference import stand_in
from tests.inference.small_networks import perceptron
from tests.inference.test_cutting import residual
from tests.inference.test_splitting import drawing

pytestmark = pytest.mark.usefixtures("before_others")

PAIR = api.LayerSettings(kind="stage", n_groups=2, with_transitions=True)


def request_of(model: Path, runs: Path, **settings: object) -> api.MeasureRequest:
    return api.MeasureRequest(
        models=(str(model),),
        profile="brief",
        is_local=True,
        processor="cpu",
        settings=api.NetworkSettings(**settings),  # type: ignore[arg-type]
        runs=runs,
    )


def test_groups_are_marked_beside_the_whole_in_each_partition(tmp_path: Path) -> None:
    request = request_of(residual(tmp_path), tmp_path / "runs")
    alone = api.LayerSettings(kind="stage", n_groups=2, with_transitions=True, partitions=((0,),))
    result = api.measure_layers(request, alone)
    result.check()
    rows = [each.row for each in result.rows]
    # The second of four stages has 84 % of the work, so the groups are Conv + Relu, and the rest.
    # The whole is the last prefix: number 1 before the marked one, and 2 after it.
    assert [(row.part.kind, row.part.number) for row in rows] == [
        ("stage", 0),
        ("stage", 1),
        ("prefix", 1),
        ("marked", 0),
        ("prefix", 2),
    ]
    assert {(row.cpus, row.threads, row.options["cpus"]) for row in rows} == {((0,), 1, "0")}
    assert [len(row.part.nodes) for row in rows] == [2, 7, 9, 9, 9]
    (whole,) = (each.row for each in result.whole.rows)
    assert "cpus" not in whole.options
    assert [each.part.kind for each in result.parts] == ["stage", "stage"]
    if not any(map(doubts, rows)):  # nothing is measured again
        assert api.measure_layers(request, alone).rows == result.rows


def test_a_network_that_its_stages_do_not_compute_is_not_measured(tmp_path: Path) -> None:
    request = request_of(drawing(tmp_path), tmp_path / "runs")
    with pytest.raises(ModelError, match="drawing computes something else in 2 stages"):
        api.measure_layers(request, PAIR)
    (run,) = (tmp_path / "runs").glob("*/measurements.jsonl")  # of the whole network
    assert '"stage"' not in run.read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_groups": 2}, "layers are no groups"),
        ({"kind": "stage", "partitions": ((99,),)}, "there is no CPU 99"),
    ],
)
def test_what_cannot_be_asked_for_together(
    tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    request = request_of(residual(tmp_path), tmp_path / "runs")
    with pytest.raises(UsageError, match=said):
        api.measure_layers(request, api.LayerSettings(**settings))  # type: ignore[arg-type]
    assert not list((tmp_path / "runs").glob("*/measurements.jsonl"))  # before anything is measured


@pytest.mark.parametrize("text", ["", "a", "-1", "0-99999999999"])
def test_partitions_that_name_no_cpus(text: str) -> None:
    assert parse_cpus("2-3,0") == (0, 2, 3)
    with pytest.raises(UsageError, match="names no CPUs"):
        parse_cpus(text)


def test_on_a_dla_prefixes_are_built_and_run_on_its_core(tmp_path: Path) -> None:
    """TensorRT is a stand-in of its bindings on a simulated board; the rest is our own code."""
    perceptron(tmp_path / "mlp.onnx", batch=1)
    with stand_in.played("10.3.0", device="orin"):
        request = api.MeasureRequest(
            models=(str(tmp_path / "mlp.onnx"),),
            settings=api.NetworkSettings(
                engine="tensorrt",
                precisions=("fp16",),
                build=api.BuildSettings(dla_core=0),
            ),
            profile="brief",
            is_local=True,
            board=create_board("agx-orin", tmp_path / "board"),
            runs=tmp_path / "runs",
        )
        result = api.measure_layers(request, PAIR)
    rows = [each.row for each in result.rows]
    assert [row.failure for row in rows] == [None] * 6
    # Gemm + Relu, and Gemm.
    assert [(row.part.kind, row.part.number, row.part.op_types) for row in rows] == [
        ("stage", 0, ("Gemm", "Relu")),
        ("stage", 1, ("Gemm",)),
        ("prefix", 0, ("Gemm", "Relu")),
        ("prefix", 1, ("Gemm", "Relu", "Gemm")),
        ("marked", 0, ("Gemm", "Relu", "Gemm")),
        ("prefix", 2, ("Gemm", "Relu", "Gemm")),
    ]
    (found,) = result.groups
    assert (found.accelerator, found.source) == ("dla0", "simulated")
    assert [each.op_types for each in found.groups] == [("Gemm", "Relu"), ("Gemm",)]
    assert found.fallback_share == pytest.approx(1 - float(rows[3].options["dla_share"]))
    assert {row.options["dla_core"] for row in rows} == {"0"}
    assert all(0 < float(row.options["dla_share"]) <= 1 for row in rows)
    # The whole network, two groups of which one is the first prefix too, the last prefix, which
    # runs twice, and the marked network.
    assert len(list((tmp_path / "runs/engines").glob("*.engine"))) == 5
