from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.simulator.boards import BOARDS, BY_NAME
from mansard.simulator.clocks import (
    AMBIENT_C,
    LoadSource,
    Shares,
    dynamic,
    ina238_uw,
    ina3221_reading,
    mean,
    most_power_w,
    rail_powers,
    voltage,
    warmer_c,
    with_noise,
)
from mansard.simulator.kernel import ClockLimits, ReadingFile

SHARE = st.floats(0, 1)
RAILS = {rail.label: rail for board in BOARDS for rail in board.rails}


def test_dynamic_power_is_f_v_squared_u() -> None:
    assert voltage(1.0) == pytest.approx(1.0)
    assert voltage(0.5) == pytest.approx(0.8)
    assert dynamic(1.0, 1.0) == pytest.approx(1.0)
    # 0.5 * 0.8 * 0.8 * (0.06 + 0.94 * 0.5) = 0.32 * 0.53
    assert dynamic(0.5, 0.5) == pytest.approx(0.1696)
    assert dynamic(1.0, 0.0) == pytest.approx(0.06)


@given(SHARE, SHARE, SHARE, SHARE)
def test_faster_and_busier_takes_more(f: float, u: float, df: float, du: float) -> None:
    assert dynamic(min(1.0, f + df), min(1.0, u + du)) >= dynamic(f, u)


def test_the_most_of_agx_orin_is_what_was_recorded() -> None:
    powers = rail_powers(BY_NAME["agx-orin"].rails, Shares(1, 1, 1), AMBIENT_C)
    assert powers == pytest.approx(
        {
            "VDD_GPU_SOC": 35.8,  # 2.4 + 30.0 + 3.4
            "VDD_CPU_CV": 14.3,  # 0.4 + 13.9
            "VIN_SYS_5V0": 5.8,  # 3.5 + 2.3
            "VDDQ_VDD2_1V8AO": 2.5,  # 0.3 + 2.2
        }
    )
    assert most_power_w(BY_NAME["agx-orin"]) == pytest.approx(58.4)  # their sum


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
@given(cpu=SHARE, gpu=SHARE, memory=SHARE, temperature_c=st.floats(20, 100))
def test_a_total_carries_its_parts(
    board: object, cpu: float, gpu: float, memory: float, temperature_c: float
) -> None:
    rails = board.rails  # type: ignore[attr-defined]
    powers = rail_powers(rails, Shares(cpu, gpu, memory), temperature_c)
    assert all(power >= 0 for power in powers.values())
    for rail in rails:
        assert powers[rail.label] >= sum(powers[part] for part in rail.parts) - 1e-9


def test_noise_is_small_and_repeats_with_its_seed() -> None:
    rails = BY_NAME["agx-orin"].rails
    powers = rail_powers(rails, Shares(0.5, 0.5, 0.5), AMBIENT_C)
    seen = [with_noise(rails, powers, Random(7)) for _ in range(2)]
    assert seen[0] == seen[1] != powers
    noise = Random(1)
    many = [with_noise(rails, powers, noise)["VDD_GPU_SOC"] for _ in range(1000)]
    # The mean of 1000 readings with 0.5 % noise is within 0.1 %: six standard errors.
    assert mean(many) == pytest.approx(powers["VDD_GPU_SOC"], rel=0.001)


def test_an_ina3221_shows_steps_of_its_shunt() -> None:
    # 10 W at 19.904 V are 502.4 mA, over 2 mΩ 1004.8 µV: 25 steps of 40 µV, 500 mA
    assert ina3221_reading(RAILS["VDD_GPU_SOC"], 10.0) == (19904, 500, 1000)
    # 4 W at 5 V are 800 mA, over 5 mΩ 4000 µV: 100 steps
    assert ina3221_reading(RAILS["VIN_SYS_5V0"], 0.0)[1:] == (0, 0)
    # TX2: 1.84 W at 19.08 V are 96.4 mA, over 10 mΩ 964 µV: 24 steps, 96 mA
    (tx2_in,) = (rail for rail in BY_NAME["tx2"].rails if rail.label == "VDD_IN")
    assert ina3221_reading(tx2_in, 1.84) == (19080, 96, 960)


def test_thor_s_rails_step_by_393_mw_and_go_below_zero() -> None:
    # facts: 1962, 2358, 2751 mW; -392 mW at idle. 19.656 V x 20 mA = 393.12 mW
    rail = RAILS["VDD_GPU"]
    bus_mv, current_ma, _ = ina3221_reading(rail, 2.0)
    assert (bus_mv, current_ma) == (19656, 100)
    assert ina3221_reading(rail, -0.4)[1] == -20


def test_an_ina238_shows_microwatts() -> None:
    assert ina238_uw(19.7803) == 19780500


@given(st.floats(0, 60), st.sampled_from(sorted(RAILS)))
def test_a_reading_is_within_half_a_step(power_w: float, label: str) -> None:
    rail = RAILS[label]
    bus_mv, current_ma, shunt_uv = ina3221_reading(rail, power_w)
    step_w = bus_mv / 1000 * 40e-6 / rail.shunt_ohm
    assert abs(bus_mv * current_ma / 1e6 - power_w) <= step_w / 2 + bus_mv * 0.5e-6 + 1e-9
    assert bus_mv % 8 == 0
    assert shunt_uv % 40 == 0


def test_heat_follows_power_with_one_time_constant() -> None:
    # Half of the most power ends at 32 + 55 / 2 = 59.5 °C; after 12 s 1 - 1/e of the way
    assert warmer_c(32.0, 10.0, 20.0, 1e6) == pytest.approx(59.5)
    assert warmer_c(32.0, 10.0, 20.0, 12.0) == pytest.approx(32 + 27.5 * 0.632121, abs=1e-4)
    assert warmer_c(40.0, 10.0, 20.0, 0.0) == pytest.approx(40.0)


@given(st.floats(20, 100), st.floats(0, 60), st.floats(0, 30), st.floats(0, 30))
def test_heat_in_two_steps_is_heat_in_one(
    start_c: float, power_w: float, first_s: float, then_s: float
) -> None:
    once_c = warmer_c(start_c, power_w, 60.0, first_s + then_s)
    twice_c = warmer_c(warmer_c(start_c, power_w, 60.0, first_s), power_w, 60.0, then_s)
    assert twice_c == pytest.approx(once_c, abs=1e-9)


def limits(folder: Path) -> ClockLimits:
    (folder / "min").write_text("100\n")
    (folder / "max").write_text("400\n")
    return ClockLimits(folder, ("min", "max"), (100, 200, 300, 400), resolves=True)


@given(writes=st.lists(st.tuples(st.sampled_from(["min", "max"]), st.integers(-50, 500))))
def test_limits_stay_in_the_table_and_in_order(
    writes: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("limits")
    pair = limits(folder)
    for name, value in writes:
        (folder / name).write_text(f"{value}\n")
        pair.settle(folder / name)
        assert pair.low <= pair.high
        assert {pair.low, pair.high} <= {100, 200, 300, 400}
        assert [int((folder / n).read_text()) for n in ("min", "max")] == [pair.low, pair.high]


def test_the_governor_takes_the_next_step_up(tmp_path: Path) -> None:
    pair = limits(tmp_path)
    # 100 + 300 * 1.25 * 0.5 = 287.5
    assert pair.step_for(0.5, 1000) == 300
    assert pair.step_for(0.0, 1000) == 100
    assert pair.step_for(1.0, 1000) == 400
    assert pair.step_for(1.0, 399) == 300  # throttled
    assert pair.step_for(1.0, 0) == 100
    values = [pair.step_for(share / 100, 1000) for share in range(101)]
    assert all(a <= b for a, b in pairwise(values))


def test_a_reading_keeps_its_length(tmp_path: Path) -> None:
    file = tmp_path / "curr1_input"
    file.write_text("0\n")
    reading = ReadingFile(file)
    for value in (123456, 7, -392):
        reading.show(value)
        assert file.stat().st_size == 16
        assert int(file.read_text()) == value
    reading.close()
    ReadingFile(tmp_path / "missing").show(1)  # a fault took it away: nothing happens


def test_the_machine_s_own_load_is_taken(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  9 9 9 9\ncpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0 0 0\n")
    source = LoadSource(tmp_path / "load.json", stat)
    # cpu0: 30 busy of 40 ticks; cpu1 did not move; cpu2 is not on this machine
    stat.write_text("cpu  9 9 9 9\ncpu0 130 0 0 110 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0 0 0\n")
    source.sample()
    load = source.load({0, 2})
    assert load.cpus == {0: 0.75, 2: 0.0}
    assert load.gpu == 0.0
    (tmp_path / "load.json").write_text('{"cpu": 2, "gpu": 0.5}')
    source.reread()
    assert source.load({3}).cpus == {3: 1.0}
    for junk in ("[]", "{", '{"cpu": []}', "\xff"):
        (tmp_path / "load.json").write_text(junk)
        source.reread()
        assert source.load({2}).cpus == {2: 0.0}
