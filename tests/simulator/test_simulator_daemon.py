from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError, InputError
from mansard.simulator import (
    create_board,
    running,
    set_fault,
    set_load,
    snapshot,
    switched_on,
)
from tests.simulator.simulator_bench import CPU, EMC, GPU, INA, number, run, text
from tests.waiting import awaited

POLICY = f"{CPU}/cpufreq/policy4"


def settles_at(root: Path, path: str, value: str) -> bool:
    """A setting's file in the end holds ``value``."""
    return awaited(lambda: text(root, path) == value)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1113600", "1113600"),  # in the table: 115200 + 76800 * 13
        ("1200000", "1190400"),  # a highest is moved down: 115200 + 76800 * 14
        ("9999999", "2201600"),
        ("1", "729600"),
        ("-1", "729600"),
        ("junk", "1728000"),  # refused
    ],
)
def test_a_highest_clock_is_moved_to_the_table(
    written: str, kept: str, running_agx_orin: Path
) -> None:
    set_load(running_agx_orin, cpu=1.0)
    (running_agx_orin / POLICY / "scaling_max_freq").write_text(written)
    assert settles_at(running_agx_orin, f"{POLICY}/scaling_max_freq", kept)
    assert settles_at(running_agx_orin, f"{POLICY}/scaling_cur_freq", kept)


def test_a_lowest_clock_is_moved_up(running_agx_orin: Path) -> None:
    (running_agx_orin / GPU / "min_freq").write_text("400000000")
    assert settles_at(running_agx_orin, f"{GPU}/min_freq", "408000000")


def test_a_lowest_above_the_highest_is_refused(running_agx_orin: Path) -> None:
    # 30W: the GPU may run from 306 to 612 MHz
    (running_agx_orin / GPU / "min_freq").write_text("816000000")
    assert settles_at(running_agx_orin, f"{GPU}/min_freq", "306000000")
    (running_agx_orin / GPU / "max_freq").write_text("918000000")
    (running_agx_orin / GPU / "min_freq").write_text("816000000")
    assert settles_at(running_agx_orin, f"{GPU}/cur_freq", "816000000")


def test_a_cluster_that_is_off_takes_nothing(running_agx_orin: Path) -> None:
    limit = f"{CPU}/cpufreq/policy8/scaling_max_freq"
    (running_agx_orin / limit).write_text("1113600")
    assert settles_at(running_agx_orin, limit, "2201600")
    (running_agx_orin / CPU / "cpu8/online").write_text("1")
    (running_agx_orin / limit).write_text("1113600")
    set_load(running_agx_orin, cpu=1.0)
    assert settles_at(running_agx_orin, f"{CPU}/cpu8/cpufreq/scaling_cur_freq", "1113600")
    assert number(running_agx_orin, limit) == 1113600


def test_tx2_keeps_limits_between_the_steps(tmp_path: Path) -> None:
    root = create_board("tx2", tmp_path)
    with running(root):
        (root / f"{CPU}/cpufreq/policy0/scaling_max_freq").write_text("1200000")
        (root / f"{CPU}/cpufreq/policy0/scaling_min_freq").write_text("9999999")  # refused
        assert settles_at(root, f"{CPU}/cpufreq/policy0/scaling_min_freq", "345600")
        assert number(root, f"{CPU}/cpufreq/policy0/scaling_max_freq") == 1200000
        set_load(root, cpu=1.0)
        # 345.6 + 153.6 * 5 MHz is the last step below the limit
        assert settles_at(root, f"{CPU}/cpufreq/policy0/scaling_cur_freq", "1113600")


def test_the_list_of_cores_follows_the_switches(running_agx_orin: Path) -> None:
    (running_agx_orin / CPU / "cpu5/online").write_text("0")
    (running_agx_orin / CPU / "cpu9/online").write_text("1")
    assert awaited(lambda: text(running_agx_orin, f"{CPU}/online") == "0-4,6-7,9")
    assert awaited(lambda: text(running_agx_orin, f"{CPU}/offline") == "5,8,10-11")
    assert awaited(lambda: text(running_agx_orin, f"{POLICY}/affected_cpus") == "4 6 7")
    assert awaited(lambda: "cpu5 " not in text(running_agx_orin, "proc/stat"))
    (running_agx_orin / CPU / "cpu5/online").write_text("2")
    assert settles_at(running_agx_orin, f"{CPU}/cpu5/online", "0")


def test_the_memory_clock_is_locked(running_agx_orin: Path) -> None:
    set_load(running_agx_orin, cpu=0.0, memory=0.0)
    assert awaited(lambda: number(running_agx_orin, f"{EMC}/rate") == 204000000)  # idle
    (running_agx_orin / EMC / "mrq_rate_locked").write_text("1")
    (running_agx_orin / EMC / "rate").write_text("2133000000")
    # Padded: the daemon has taken it over.
    assert awaited(lambda: (running_agx_orin / EMC / "rate").stat().st_size == 16)
    assert number(running_agx_orin, f"{EMC}/rate") == 2133000000
    (running_agx_orin / EMC / "mrq_rate_locked").write_text("0")
    assert awaited(lambda: number(running_agx_orin, f"{EMC}/rate") == 204000000)


def test_the_memory_s_cap_holds(running_agx_orin: Path) -> None:
    set_load(running_agx_orin, memory=1.0)
    assert awaited(lambda: number(running_agx_orin, f"{EMC}/rate") == 3199000000)
    (running_agx_orin / "sys/kernel/nvpmodel_clk_cap/emc").write_text("2133000000")
    assert awaited(lambda: number(running_agx_orin, f"{EMC}/rate") == 2133000000)


def power_w(root: Path, channel: int) -> float:
    volt = number(root, f"{INA}/in{channel}_input") / 1000
    return volt * number(root, f"{INA}/curr{channel}_input") / 1000


def test_load_raises_clocks_and_power(running_agx_orin: Path) -> None:
    set_load(running_agx_orin, cpu=0.0, gpu=0.0)
    assert awaited(lambda: number(running_agx_orin, f"{GPU}/load") == 0)
    # 30W, nothing runs: 0.4 W and what the clocks take
    assert awaited(lambda: power_w(running_agx_orin, 2) < 1.0)
    set_load(running_agx_orin, cpu=1.0, gpu=1.0)
    assert awaited(lambda: number(running_agx_orin, f"{GPU}/cur_freq") == 612000000)
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 1728000)
    assert awaited(lambda: power_w(running_agx_orin, 2) > 4.0)


def test_the_performance_governor_does_not_wait_for_load(running_agx_orin: Path) -> None:
    set_load(running_agx_orin, cpu=0.0)
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 729600)
    (running_agx_orin / POLICY / "scaling_governor").write_text("performance")
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 1728000)


def test_the_powersave_governor_does_not_follow_the_load(running_agx_orin: Path) -> None:
    lowest = (running_agx_orin / POLICY / "scaling_min_freq").read_text().strip()
    clock = running_agx_orin / POLICY / "scaling_cur_freq"
    set_load(running_agx_orin, cpu=1.0)
    assert awaited(lambda: clock.read_text().strip() != lowest)
    (running_agx_orin / POLICY / "scaling_governor").write_text("powersave")
    assert awaited(lambda: clock.read_text().strip() == lowest)


def test_currents_come_in_the_chip_s_steps(running_agx_orin: Path) -> None:
    seen = set()

    def look() -> bool:
        seen.add(number(running_agx_orin, f"{INA}/curr3_input"))
        set_load(running_agx_orin, memory=len(seen) / 4)
        return len(seen) >= 4

    assert awaited(look)
    # 40 µV of 5 mΩ are 8 mA
    assert all(current % 8 == 0 for current in seen)


def test_too_hot_is_slower(running_agx_orin: Path) -> None:
    set_load(running_agx_orin, cpu=1.0, gpu=1.0)
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 1728000)
    set_fault(running_agx_orin, "throttle", value=True)
    # 60 % of 2201.6 MHz is 1321 MHz; the next step below is 115200 + 76800 * 15
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 1267200)
    zones = running_agx_orin / "sys/class/thermal"
    assert awaited(lambda: number(zones, "thermal_zone6/temp") > 95000)
    assert awaited(lambda: number(zones, "cooling_device1/cur_state") == 1)
    set_fault(running_agx_orin, "throttle", value=False)
    assert awaited(lambda: number(running_agx_orin, f"{POLICY}/scaling_cur_freq") == 1728000)
    assert awaited(lambda: number(zones, "cooling_device1/cur_state") == 0)


def test_over_current_events_are_counted(running_agx_orin: Path) -> None:
    counter = "sys/class/hwmon/hwmon1/oc3_event_cnt"
    assert number(running_agx_orin, counter) == 0
    set_fault(running_agx_orin, "over_current", 3)
    assert awaited(lambda: number(running_agx_orin, counter) == 3)
    assert awaited(lambda: number(running_agx_orin, f"{INA}/curr1_max_alarm") == 1)


def test_a_clock_can_slip(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "clock_slips", "gpu")
    # The daemon has read it once it answers to what was written after it.
    set_load(running_agx_orin, gpu=0.25)
    assert awaited(lambda: number(running_agx_orin, f"{GPU}/load") == 250)
    (running_agx_orin / GPU / "max_freq").write_text("408000000")
    assert settles_at(running_agx_orin, f"{GPU}/max_freq", "612000000")


def test_the_kernel_can_round(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "kernel_rounds", value=True)
    set_load(running_agx_orin, gpu=0.25)
    assert awaited(lambda: number(running_agx_orin, f"{GPU}/load") == 250)
    (running_agx_orin / GPU / "max_freq").write_text("510000000")
    assert settles_at(running_agx_orin, f"{GPU}/max_freq", "408000000")


def test_a_folder_of_clocks_can_go_with_its_core(running_agx_orin: Path) -> None:
    link = running_agx_orin / CPU / "cpu9/cpufreq"
    assert link.exists()
    set_fault(running_agx_orin, "cpufreq_gone", value=True)
    assert awaited(lambda: not link.is_symlink())
    (running_agx_orin / CPU / "cpu9/online").write_text("1")
    assert awaited(link.exists)


def test_a_torn_write_leaves_the_old_value(running_agx_orin: Path) -> None:
    # Truncating a file of /sys changes nothing there; its writer died before it wrote.
    for path, kept in ((f"{GPU}/max_freq", "612000000"), (f"{CPU}/cpu3/online", "1")):
        (running_agx_orin / path).write_bytes(b"")
        assert settles_at(running_agx_orin, path, kept)


def changes(root: Path, path: str) -> bool:
    first = text(root, path)
    return awaited(lambda: text(root, path) != first)


def test_a_sensor_can_stop(running_agx_orin: Path) -> None:
    assert changes(running_agx_orin, f"{INA}/curr3_input")
    set_fault(running_agx_orin, "sensor_stops", "VIN_SYS_5V0")
    set_load(running_agx_orin, gpu=0.25)
    assert awaited(lambda: number(running_agx_orin, f"{GPU}/load") == 250)
    stuck = text(running_agx_orin, f"{INA}/curr3_input")
    # The others go on: twenty times the memory's rail is the same.
    for _ in range(20):
        assert changes(running_agx_orin, "proc/uptime")
        assert text(running_agx_orin, f"{INA}/curr3_input") == stuck


def test_a_sensor_can_jump(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "sensor_jumps", "VIN_SYS_5V0")
    assert awaited(lambda: power_w(running_agx_orin, 3) > 30)  # ten times 3.5 W
    assert awaited(lambda: power_w(running_agx_orin, 3) < 5)


def test_thor_has_rails_in_uw_and_below_zero(tmp_path: Path) -> None:
    root = create_board("thor", tmp_path)
    set_load(root, cpu=0.0, gpu=0.0)
    with running(root):
        assert awaited(lambda: number(root, "sys/class/hwmon/hwmon4/power1_input") > 10_000_000)
        # 40 µV of 2 mΩ are 20 mA
        assert awaited(lambda: number(root, "sys/class/hwmon/hwmon3/curr1_input") % 20 == 0)
        set_load(root, cpu=0.0, gpu=1.0)
        assert awaited(lambda: number(root, "sys/class/devfreq/gpu-gpc-0/cur_freq") > 1_000_000_000)


def test_tx2_s_monitors_multiply_by_themselves(tmp_path: Path) -> None:
    root = create_board("tx2", tmp_path)
    with running(root):
        folder = "sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1"
        # idle: 0.7 W of its own and 1.1 W of its parts, and what the clocks take
        assert awaited(lambda: 1500 < number(root, f"{folder}/in_power0_input") < 16000)
        assert number(root, f"{folder}/in_voltage0_input") == 19080


def test_a_board_is_switched_on_once(agx_orin: Path) -> None:
    with switched_on(agx_orin), switched_on(agx_orin):
        run(agx_orin, "nvpmodel", "-m", "1")  # 15W: the CPUs follow their cap
        assert settles_at(agx_orin, f"{CPU}/cpufreq/policy0/scaling_max_freq", "1113600")
        assert awaited(
            lambda: number(agx_orin, f"{CPU}/cpufreq/policy0/scaling_cur_freq") <= 1113600
        )
    with running(agx_orin):  # it was switched off
        pass


def test_no_other_folder_is_switched_on(tmp_path: Path) -> None:
    with switched_on(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_settings_stay_when_it_stops(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    with running(agx_orin):
        run(agx_orin, "nvpmodel", "-m", "0")
        run(agx_orin, "nvpmodel", "-m", "2")
    assert snapshot(agx_orin) == before
    with running(agx_orin):
        (agx_orin / GPU / "max_freq").write_text("408000000")
    assert number(agx_orin, f"{GPU}/max_freq") == 408000000


def test_one_tree_runs_once(running_agx_orin: Path) -> None:
    with pytest.raises(DeviceError, match="running already"), running(running_agx_orin):
        pass


def test_what_is_no_board_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="not the root of a simulated board"), running(tmp_path):
        pass
    from mansard.simulator.daemon import board_of

    with pytest.raises(InputError):
        board_of(tmp_path)


def test_it_ends_with_who_started_it(agx_orin: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mansard.simulator import running\n"
        f"with running(Path({str(agx_orin)!r})):\n print('up', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        os.kill(parent.pid, signal.SIGKILL)

    def is_free() -> bool:
        try:
            with running(agx_orin):
                return True
        except DeviceError:
            return False

    assert awaited(is_free)


def test_a_terminated_daemon_ends_in_order(agx_orin: Path) -> None:
    command = [sys.executable, "-m", "mansard.simulator", str(agx_orin)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n"
        daemon.send_signal(signal.SIGINT)  # a Ctrl-C is not meant for it
        assert changes(agx_orin, "proc/uptime")
        daemon.terminate()
    assert daemon.returncode == 0


def test_it_ends_with_the_process_that_it_is_given(agx_orin: Path) -> None:
    """Not with the one that started it: `sleep` stands for a starter that hands it on."""
    with subprocess.Popen(["sleep", "60"]) as owner:
        command = [sys.executable, "-m", "mansard.simulator", str(agx_orin), str(owner.pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == "ready\n"
            assert changes(agx_orin, "proc/uptime")
            assert daemon.poll() is None
            owner.kill()
            owner.wait()
            try:
                assert daemon.wait(10) == 0
            finally:
                daemon.kill()
