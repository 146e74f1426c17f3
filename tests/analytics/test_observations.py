"""Which measured networks are observations, and by which of their times."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.scaling.observations import measured_observations
from mansard.core.records import CpuTime, Measurement
from tests.analytics.factory import measurement, write_networks

_REJECTED = "other processes used the CPU: threads waited 0.5 s in each second"


def beside_load(threads: int, *seconds_s: float) -> Measurement:
    """Accepted ``seconds_s``, two samples of 20 ms rejected, and 8, 9 and 10 ms on a CPU.

    A tenth of the way from the least to the most is 8.2 ms.
    """
    return measurement(
        "nets",
        seconds_s,
        threads=threads,
        rejected_s=(0.02, 0.02),
        rejected_reason=(_REJECTED, _REJECTED),
        cpu_time=CpuTime(seconds_s=(0.010, 0.008, 0.009)),
    )


@pytest.mark.parametrize(
    ("row", "times_s"),
    [
        (beside_load(1, 0.011), (0.011, 0.0082)),
        (beside_load(1), (None, 0.0082)),
        (beside_load(2, 0.011), (0.011, None)),  # one of two threads may have spun
        (measurement("nets", (0.011,), threads=1), (0.011, None)),
    ],
)
def test_the_cpu_time_of_one_thread_stands_beside_the_wall_time(
    tmp_path: Path, row: Measurement, times_s: tuple[float | None, float | None]
) -> None:
    write_networks(tmp_path, [row])
    seen = measured_observations(ingest(tmp_path))
    assert seen.rows.select("latency_s", "cpu_s").row(0) == pytest.approx(times_s)
    assert seen.notes == ()


def test_without_any_time_a_network_is_in_no_model(tmp_path: Path) -> None:
    write_networks(tmp_path, [beside_load(2)])
    seen = measured_observations(ingest(tmp_path))
    assert seen.rows.is_empty()
    assert len(seen.notes) == 1
    assert "every sample was rejected: other processes used the CPU" in seen.notes[0]


def test_a_disturbed_row_is_no_observation_by_its_cpu_time(tmp_path: Path) -> None:
    write_networks(
        tmp_path,
        [
            measurement(
                "nets",
                (),
                threads=1,
                disturbances=("the mode changed",),
                cpu_time=CpuTime(seconds_s=(0.010,)),
            )
        ],
    )
    assert measured_observations(ingest(tmp_path)).rows.is_empty()


def test_reasons_that_differ_in_a_number_are_one_line_with_the_range(tmp_path: Path) -> None:
    reasons = {
        "a": "the CPU clock was at 2201.6 MHz, above its cap of 1113.6 MHz",
        "b": "the CPU clock was at 1900 MHz, above its cap of 1113.6 MHz",
        "c": "throttled 3 times",
    }
    rows = [
        measurement("nets", (0.1,) * 9, model=name, trial_id=name * 16, disturbances=(why,))
        for name, why in reasons.items()
    ]
    write_networks(tmp_path, rows)
    assert sorted(measured_observations(ingest(tmp_path)).notes) == [
        "a, b: run, but not used for predictions: the CPU clock was at 1900 to 2201.6 MHz, "
        "above its cap of 1113.6 MHz",
        "c: run, but not used for predictions: throttled 3 times",
    ]
