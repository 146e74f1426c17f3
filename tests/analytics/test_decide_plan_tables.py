"""What a plan is made of: tables of modes, and what is known of one device."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.decisions.modes import mode_frame, read_mode_table, select_data
from mansard.analytics.models.scaling.network_fit import fit_network
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.pages.words.next_modes import modelled_notes
from mansard.core.errors import InputError, UsageError
from mansard.core.power_mode import core_count_mode
from tests.analytics.network_truth import modes, observe

GRID = modes((0.4, 0.8, 1.2), (1.0, 2.0))
NOTHING = pl.DataFrame(schema=PREDICTION_SCHEMA)
RAN = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)


def test_a_table_of_modes_in_any_usual_units(tmp_path: Path) -> None:
    path = tmp_path / "modes.csv"
    path.write_text(
        "power mode,gpu_mhz,emc_hz,n_sms,colour\n15W,408,2133e6,6,red\nMAXN,1300.5,,,\n"
    )
    frame = read_mode_table(path, "orin")
    assert dict(frame.schema) == MODE_SCHEMA
    assert frame.rows() == [
        ("orin", "15W", 408e6, 2133e6, None, 6, None, None),
        ("orin", "MAXN", 1300.5e6, None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "is empty; give a CSV table with a header line"),
        ("mode,gpu_hz\n", "has a header and no rows; give a table with rows"),
        ("mode,colour\na,red\n", "no column is a clock, a count or a power limit"),
        ("mode,gpu_hz\na,nan\n", "line 2: gpu_hz is nan, and must be above 0"),
        ("mode,gpu_hz\na,1e9\na,2e9\n", "lines 2 and 3 give mode 'a' different clocks"),
        ("mode,gpu_hz\n,1e9\n", "line 2: mode is empty"),
    ],
)
def test_a_table_of_no_modes(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_mode_table(path, "orin")
    assert line in str(error.value)


def test_modes_without_a_name_are_called_by_their_clocks(tmp_path: Path) -> None:
    path = tmp_path / "modes.csv"
    path.write_text("gpu_mhz,emc_mhz,n_cpus\n408,2133,4\n")
    assert read_mode_table(path, "orin")["mode"].to_list() == ["gpu408MHz_emc2133MHz_4c"]


def test_modes_of_a_plain_machine_have_cores_and_no_clocks() -> None:
    frame = mode_frame((core_count_mode(1), core_count_mode(2)), "here")
    assert frame.select("mode", "n_cpus", "cpu_hz").rows() == [("1c", 1, None), ("2c", 2, None)]


def test_the_only_device_is_meant_and_its_networks_are_there() -> None:
    known = select_data(GRID, RAN, NOTHING)
    assert (known.device, known.modes.height, known.observations.height) == ("board", 6, 6)
    assert known.modelled == ()


def test_of_several_devices_one_has_to_be_named() -> None:
    both = pl.concat([GRID, GRID.with_columns(device=pl.lit("other"))])
    with pytest.raises(UsageError, match=r"2 devices were measured; .*: board, other"):
        select_data(both, RAN, NOTHING)
    for part in ("other", "OTH"):
        known = select_data(both, RAN, NOTHING, device=part)
        assert (known.modes.height, known.observations.height) == (6, 0)
    with pytest.raises(UsageError, match="2 devices were measured"):
        select_data(both, RAN, NOTHING, device="o")  # board and other
    with pytest.raises(UsageError, match="no measured device is called 'third'; use board, other"):
        select_data(both, RAN, NOTHING, device="third")
    # A program of the whole board, say: the network tells which device is meant.
    assert select_data(both, RAN, NOTHING, network="net").device == "board"


def test_a_network_is_found_whatever_its_capitals_or_named() -> None:
    known = select_data(GRID, RAN, NOTHING, network="NET")
    assert known.observations.height == 6
    with pytest.raises(UsageError, match="nothing is known of a network 'nets'; use net"):
        select_data(GRID, RAN, NOTHING, network="nets")


def test_what_the_roofs_allow_stands_for_networks_that_nobody_ran() -> None:
    allowed = predict_modes(fit_network(RAN, GRID), GRID).with_columns(is_extrapolated=False)
    other = allowed.with_columns(network=pl.lit("other"))
    beyond = allowed.with_columns(network=pl.lit("beyond"), is_extrapolated=True)
    known = select_data(GRID, RAN, pl.concat([allowed, other, beyond]))
    assert dict(known.observations.schema) == OBSERVATION_SCHEMA
    sources = known.observations.group_by("network", "source", maintain_order=True).len().rows()
    assert sources == [("net", "measured", 6), ("other", "modelled", 6)]
    assert modelled_notes(known) == ("not measured: other; what the roofs allow is used instead",)


def test_nothing_measured_is_said() -> None:
    with pytest.raises(UsageError, match="no mode was measured; leave the folder out"):
        select_data(GRID.clear(), RAN.clear(), NOTHING)
