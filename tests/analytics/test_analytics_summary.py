from __future__ import annotations

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.summary import Summary, summary
from tests.analytics.factory import write_two_modes
from tests.analytics.score_factory import layer, score, write_scores


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    runs = write_two_modes(tmp_path_factory.mktemp("runs"))
    half = [layer(0, 10**9, 10**6, precision="fp16")]
    write_scores(
        runs,
        [score("net", [layer(0, 64 * 10**9, 10**6)]), score("half", half, precision="fp16")],
    )
    return summary(ingest(runs))


def test_ceilings_and_times(found: Summary) -> None:
    assert [mode.label for mode in found.modes] == ["1c", "2c"]
    assert [mode.peaks[0].value for mode in found.modes] == [
        pytest.approx(64e9),
        pytest.approx(128e9),
    ]
    times = {(row.model, row.label): row.time_s for row in found.networks}
    # 64 GFLOP at 64 and at 128 GFLOP/s
    assert times["net", "1c"] == pytest.approx(1.0)
    assert times["net", "2c"] == pytest.approx(0.5)


def test_what_is_unknown_has_a_reason(found: Summary) -> None:
    (half,) = [row for row in found.networks if (row.model, row.label) == ("half", "2c")]
    assert half.time_s is None
    assert half.unknown["time_s"] == "no fp16 peak is known in this mode"
    (net,) = [row for row in found.networks if (row.model, row.label) == ("net", "2c")]
    assert net.energy_j is None
    assert "power meter" in net.unknown["energy_j"]
    said = "launch costs are left out: they were not measured in every mode of this device"
    assert net.notes == said


def test_it_survives_json(found: Summary) -> None:
    assert msgspec.json.decode(msgspec.json.encode(found), type=Summary) == found


def test_a_package_that_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, mansard.analytics;"
        "print(sorted({'polars', 'altair', 'vl_convert', 'numpy', 'jinja2'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
