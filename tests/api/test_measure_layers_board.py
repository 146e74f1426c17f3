"""Layers that are run alone on a simulated AGX Orin: with energy, and the use of its memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard import api
from tests.api.test_nn_profiler import decode, written
from tests.inference.test_cutting import residual

pytestmark = pytest.mark.usefixtures("before_others")


@pytest.fixture
def request_of_board(running_agx_orin: Path, tmp_path: Path) -> api.MeasureRequest:
    return api.MeasureRequest(
        models=(str(residual(tmp_path)), "conv64_56x28_k1"),
        profile="brief",
        is_local=True,
        board=running_agx_orin,
        processor="cpu",
        settings=api.NetworkSettings(threads=1),
        runs=tmp_path / "runs",
    )


def test_layers_have_energy_and_the_board_reports_its_memory_use(
    request_of_board: api.MeasureRequest, tmp_path: Path
) -> None:
    alone = api.LayerSettings(slowest=2, window_s=1.5, boundary_s=0.1, meter_period_s=0.02)
    result = api.measure_layers(request_of_board, alone)
    result.check()
    # Two of the network's five layers, and the one that the convolution is.
    assert [each.row.part.whole for each in result.rows] == [
        "residual",
        "residual",
        "conv64_56x28_k1",
    ]
    for part in result.parts:
        assert part.source == "simulated"
        if part.energy_j is None:  # other programs had the CPUs, of the meters or of the calls
            busy = ("no reading for", "other work disturbed", "a call took")
            assert any(words in part.unknown["energy_j"] for words in busy)
        else:
            assert part.power_w is not None
            assert part.power_w > 0
    for each in result.rows:
        (window,) = each.row.energy or ()
        assert window.window_s >= 1.5
        assert window.repetitions > 0
    (single,) = (each for each in result.sums if each.network == "conv64_56x28_k1")
    assert (single.n_parts, single.n_measured) == (1, 1)
    memory = {each.network: each for each in result.whole.memory}
    assert memory.keys() == {"residual", "conv64_56x28_k1"}
    # 58 · 30 outputs of 56 · 28 inputs, 64 channels of 4 bytes; 64 · 64 weights and 64 biases.
    n_bytes = 4 * (64 * 56 * 28 + 64 * 58 * 30 + 64 * 64 + 64)
    assert memory["conv64_56x28_k1"].traffic_bytes == n_bytes
    assert memory["conv64_56x28_k1"].n_readings > 0
    assert 0 <= memory["conv64_56x28_k1"].mean_share <= 1
    path = written(request_of_board.runs, tmp_path / "out")
    found = decode(path.read_bytes())
    known = [each for each in result.parts if each.network == "residual" and each.energy_j]
    rails = found["residual"]["cpu"].power
    assert all("VDD_GPU_SOC" in rails[str(each.part.number)] for each in known)
    page = Path(api.report((str(request_of_board.runs),)).path).read_text(encoding="utf-8")
    assert "Memory use compared with modelled traffic" in page
