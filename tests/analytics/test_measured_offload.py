"""What an offload run says in sum: by hand, from its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.analytics.data.limits import check_offload
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.offload.measured import measured_offload
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.offloads import offload_tables, offload_words
from mansard.core.errors import InputError
from mansard.core.records import EnergyWindow, OffloadRun
from tests.analytics.factory import manifest
from tests.analytics.factory import window as metered
from tests.analytics.offload_rows import RUN_ID, offload_row, write_offloads

P1 = (0.9, 0.5, 0.7, 0.4)  # two of four below 0.6


def block(first: int = 0, **known: Any) -> list[OffloadRun]:
    """Four samples: the small network is right on the first and third, the large one but for one.

    Energies, where there are any: 8 mJ for the four here, 80 mJ on the server, 50 mJ by the rule.
    """
    windows = known.pop("windows", (None, None, None))
    return [
        offload_row(
            "local", first=first, predicted=(1, 0, 1, 2), latency_s=(3e-3,) * 4, p1=P1,
            energy=windows[0], **known,
        ),
        offload_row(
            "remote", first=first, predicted=(1, 1, 0, 1), latency_s=(9e-3, 9e-3, 10e-3, 12e-3),
            offloaded=(0, 1, 2, 3), energy=windows[1], **known,
        ),
        offload_row(
            "hierarchical", first=first, predicted=(1, 1, 1, 1), p1=P1, local=(1, 0, 1, 2),
            latency_s=(3e-3, 12e-3, 4e-3, 14e-3), local_s=(2e-3,) * 4,
            offloaded=(1, 3), energy=windows[2], **known,
        ),
    ]  # fmt: skip


def run(n_trials: int = 3) -> Any:
    return manifest(RUN_ID, 2, n_trials, kind="offloads")


def test_shares_accuracies_and_latencies() -> None:
    one = measured_offload(run(), block())
    assert one.n_samples == 4
    assert one.share is not None
    assert one.share.value == 0.5
    accuracies = [one.local_accuracy, one.remote_accuracy, one.accuracy]
    assert [each.value for each in accuracies if each is not None] == [0.5, 0.75, 1.0]
    assert one.all is not None
    assert (one.all.mean_s, one.all.median_s) == pytest.approx((8.25e-3, 4e-3))
    assert one.all.most_s == one.all.p99_s == 14e-3
    assert one.kept is not None
    assert one.kept.n == 2
    assert one.kept.mean_s == pytest.approx(3.5e-3)
    assert one.offloaded is not None
    assert one.offloaded.mean_s == pytest.approx(13e-3)


def test_the_parts_predict_the_mean() -> None:
    one = measured_offload(run(), block())
    # local 2 ms + decision 1 ms + 1/2 · (9 + 9 + 10 + 12) / 4 ms = 3 + 5 = 8 ms; measured 8.25.
    assert one.predicted_latency is not None
    assert one.predicted_latency.value == pytest.approx(8e-3)
    assert one.latency_error == pytest.approx(8.25 / 8 - 1)
    # Of a round trip of 8 ms the server says 5, so 3 are the network's.
    assert (one.round_trip_s, one.server_s, one.network_s) == pytest.approx((8e-3, 5e-3, 3e-3))
    assert (one.sent_bytes, one.received_bytes) == (3072, 80)
    words = offload_words(one).replace("\u00a0", " ")
    assert "8.25 ms a sample, 3.1 % above the 8.00 ms" in words
    assert "its energy is unknown: no meter" in words


def window(total_j: float | None) -> EnergyWindow:
    one = metered({"VDD_IN": 1.0}, ["VDD_IN"])
    unknown = {name: why for name, why in one.unknown.items() if name != "total_j"}
    if total_j is None:
        unknown["total_j"] = "too few changes"
    return msgspec.structs.replace(one, total_j=total_j, unknown=unknown)


def test_energies_are_those_of_whole_blocks() -> None:
    rows = block(windows=tuple(map(window, (8e-3, 80e-3, 50e-3))))
    one = measured_offload(run(), rows)
    # 2 mJ here + 1/2 · 20 mJ = 12 mJ predicted; 50 / 4 = 12.5 mJ measured.
    assert one.energy is not None
    assert one.predicted_energy is not None
    assert (one.energy.value, one.predicted_energy.value) == pytest.approx((12.5e-3, 12e-3))
    assert one.energy_error == pytest.approx(12.5 / 12 - 1)
    assert one.costs.unknown["decision_j"] == "it is part of the energy of the local run"


def test_one_window_without_energy_leaves_the_sum_unknown() -> None:
    rows = block(windows=(window(8e-3), window(None), window(50e-3)))
    one = measured_offload(run(), rows)
    assert one.energy is not None
    assert one.predicted_energy is None
    assert one.energy_error is None
    assert one.unknown["predicted_energy"]


def test_blocks_that_lack_a_way_do_not_count() -> None:
    rows = [*block(), *block(first=4)[:2]]
    one = measured_offload(run(6), rows)
    assert (one.n_samples, one.n_missing) == (4, 4)
    none = measured_offload(run(6), rows[:1])
    assert (none.n_samples, none.n_missing) == (0, 8)
    assert none.all is None
    assert none.unknown["all"] == "no block was measured in all three ways"
    assert offload_words(none).startswith("No block of samples")
    assert offload_tables(none)


def test_nothing_offloaded_has_no_round_trip() -> None:
    rows = block()
    rows[2] = msgspec.structs.replace(
        rows[2], offloaded=(), round_trip_s=(), server_s=(), inference_s=(), sent_bytes=(),
        received_bytes=(),
    )  # fmt: skip
    one = measured_offload(run(), rows)
    assert one.offloaded is None
    assert one.round_trip_s is None
    assert one.unknown["network_s"] == "no sample was offloaded"


def test_rows_without_labels_have_no_accuracy() -> None:
    one = measured_offload(run(), block(labels=None))
    assert one.accuracy is None
    assert one.unknown["accuracy"] == "the data set has no labels"
    assert one.latency_error is not None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"latency_s": (1e-3,) * 3}, "differ in number"),
        ({"p1": (0.5,) * 3}, "differ in number"),
        ({"sent_bytes": ()}, "differ in number"),
        ({"latency_s": (-1.0, 1e-3, 1e-3, 1e-3)}, "a time is less than 0 s"),
        ({"local_s": (1e10,) * 4}, "a time is less than 0 s or more"),
        ({"p1": (1.5, 0.5, 0.5, 0.5)}, "a probability is outside 0 to 1"),
        ({"predicted": (3, 1, 1, 1)}, "a class is above"),
        ({"predicted": (-1, 1, 1, 1)}, "predicted|a class is above"),
        ({"offloaded": (1, 4)}, "an offloaded sample is not in the block"),
    ],
)
def test_a_row_that_cannot_be_is_refused(changes: dict[str, Any], fault: str) -> None:
    good = block()[2]
    check_offload(good, "rows")
    with pytest.raises(InputError, match=fault):
        check_offload(msgspec.structs.replace(good, **changes), "rows")


def test_a_report_shows_runs_with_a_server(tmp_path: Path) -> None:
    write_offloads(tmp_path, block())
    dataset = open_runs([str(tmp_path)])
    assert sorted(row.way for row in dataset.offloads) == ["hierarchical", "local", "remote"]
    page = render(compute(dataset))
    assert "Measured with a server" in page
    assert "8.25" in page
    # As a dataset, the rows are the same.
    assert open_runs([str(tmp_path)]).offloads == dataset.offloads
