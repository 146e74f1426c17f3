from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.simulator import create_board, running, set_fault, set_load, snapshot
from tests.simulator.simulator_bench import CPU, EMC, GPU, number, run, text
from tests.waiting import awaited


def test_the_query_prints_what_the_real_one_does(agx_orin: Path) -> None:
    done = run(agx_orin, "nvpmodel", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "NV Power Mode: MODE_30W\n2\n", "")


def test_a_query_can_end_with_complaints(agx_orin: Path) -> None:
    set_fault(agx_orin, "query_errors", ["Error opening /sys/x: 2"])
    lines = run(agx_orin, "nvpmodel", "-q").stdout.splitlines()
    assert lines == ["NV Power Mode: MODE_30W", "2", "NVPM ERROR: Error opening /sys/x: 2"]


def test_a_mode_sets_cores_masks_and_caps(agx_orin: Path) -> None:
    # nvpmodel_p3701_0000.conf, 15W: 4 cores at 1113.6 MHz, mask 248, GPU 408, EMC 2133 MHz
    done = run(agx_orin, "nvpmodel", "-m", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert text(agx_orin, f"{CPU}/online") == "0-3"
    assert number(agx_orin, f"{CPU}/cpu0/cpufreq/scaling_max_freq") == 1113600
    assert number(agx_orin, "sys/devices/platform/gpu.0/tpc_pg_mask") == 248
    assert number(agx_orin, f"{GPU}/max_freq") == 408000000
    assert number(agx_orin, f"{GPU}/min_freq") == 306000000  # 0 in the file
    assert number(agx_orin, "sys/kernel/nvpmodel_clk_cap/emc") == 2133000000
    assert text(agx_orin, "var/lib/nvpmodel/status") == "pmode:0001"
    assert run(agx_orin, "nvpmodel", "-q").stdout == "NV Power Mode: MODE_15W\n1\n"


def test_uncapped_is_the_highest_of_the_table(agx_orin: Path) -> None:
    run(agx_orin, "nvpmodel", "-m", "0")
    assert text(agx_orin, f"{CPU}/online") == "0-11"
    assert number(agx_orin, f"{CPU}/cpu11/cpufreq/scaling_max_freq") == 2201600
    assert number(agx_orin, f"{GPU}/max_freq") == 1300500000
    dla = "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/acm/clk_cap/dla0_core"
    assert number(agx_orin, dla) == 1600000000


def test_all_modes_and_back_leave_nothing_behind(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    for mode in "0132":
        assert run(agx_orin, "nvpmodel", "-m", mode).returncode == 0
    assert snapshot(agx_orin) == before


def test_limits_of_the_current_are_part_of_a_mode(tmp_path: Path) -> None:
    # nvpmodel_t194_p3668.conf: VDDIN_OC_LIMIT WARN 4000 in the 20W modes, else 3000
    root = create_board("xavier-nx", tmp_path)
    limit = "sys/class/hwmon/hwmon3/curr1_max"
    assert number(root, limit) == 3000
    assert run(root, "nvpmodel", "-m", "8").stderr == ""
    assert number(root, limit) == 4000


def test_an_unknown_mode_changes_nothing(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    done = run(agx_orin, "nvpmodel", "-m", "9")
    assert done.returncode != 0
    assert done.stderr.startswith("NVPM ERROR")
    assert snapshot(agx_orin) == before


@pytest.mark.parametrize("answer", ["no\n", "n\n", ""])
def test_a_reboot_is_asked_for_and_can_be_declined(answer: str, agx_orin: Path) -> None:
    set_fault(agx_orin, "reboot_modes", [0, 3])
    before = snapshot(agx_orin)
    done = run(agx_orin, "nvpmodel", "-m", "0", answer=answer)
    assert "NVPM WARN: Reboot required for changing to this power mode: 0" in done.stdout
    assert "NVPM ERROR: optMask is 1, no request for power mode" in done.stderr
    assert snapshot(agx_orin) == before


def test_a_reboot_question_waits_for_its_answer(agx_orin: Path) -> None:
    set_fault(agx_orin, "reboot_modes", [0])
    tool = [str(agx_orin / "usr/sbin/nvpmodel"), "-m", "0"]
    with subprocess.Popen(
        tool, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith("NVPM WARN: Reboot required")
        assert "enter YES/yes" in waiting.stdout.readline()
        assert waiting.poll() is None
        waiting.stdin.write("YES\n")
    assert waiting.returncode == 0
    assert text(agx_orin, "var/lib/nvpmodel/status") == "pmode:0000"


def test_no_reboot_for_the_mode_it_is_in(agx_orin: Path) -> None:
    set_fault(agx_orin, "reboot_modes", [2])
    assert run(agx_orin, "nvpmodel", "-m", "2").stdout == ""


def test_thor_s_gates_need_a_reboot(tmp_path: Path) -> None:
    # 120W and MAXN leave the mask at 512, 90W and 70W have 17353.
    root = create_board("thor", tmp_path)
    before = snapshot(root)
    assert run(root, "nvpmodel", "-m", "0").stdout == ""
    assert "Reboot required" in run(root, "nvpmodel", "-m", "2", answer="no").stdout
    assert run(root, "nvpmodel", "-m", "1").stdout == ""
    assert snapshot(root) == before
    assert run(root, "nvpmodel", "-m", "2", answer="yes").returncode == 0
    assert text(root, "opt/nvidia/l4t-gpusetup/gpu_pg_mask") == "gpu_pg_mask_param=17353"
    assert run(root, "nvpmodel", "-m", "3").stdout == ""


def test_it_can_refuse(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    set_fault(agx_orin, "nvpmodel_refuses", value=True)
    assert run(agx_orin, "nvpmodel", "-m", "0").returncode != 0
    assert snapshot(agx_orin) == before


def test_it_can_hang_and_ends_with_who_started_it(agx_orin: Path) -> None:
    set_fault(agx_orin, "nvpmodel_hangs", value=True)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([agx_orin / "usr/sbin/nvpmodel", "-q"], timeout=1, check=False)


def test_junk_in_its_file_is_an_error(agx_orin: Path) -> None:
    set_fault(agx_orin, "junk_conf", value=True)
    done = run(agx_orin, "nvpmodel", "-q")
    assert done.returncode != 0
    assert "NVPM ERROR" in done.stderr


def test_another_file_can_be_given(agx_orin: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.conf"
    other.write_text(
        "< PARAM TYPE=FILE NAME=CPU_ONLINE >\nCORE_7 /sys/devices/system/cpu/cpu7/online\n"
        "CORE_99 /sys/devices/system/cpu/cpu99/online\n"
        "< POWER_MODEL ID=4 NAME=ODD >\nCPU_ONLINE CORE_7 0\nCPU_ONLINE CORE_99 0\n"
        "< PM_CONFIG DEFAULT=4 >\n"
    )
    done = run(agx_orin, "nvpmodel", "-f", str(other), "-m", "4")
    assert text(agx_orin, f"{CPU}/online") == "0-6"
    assert "NVPM ERROR: Error opening /sys/devices/system/cpu/cpu99/online: 2" in done.stderr
    assert run(agx_orin, "nvpmodel", "-f", "/missing", "-q").returncode != 0


@pytest.mark.shared_data
def test_the_dump_has_the_settings_of_a_recorded_one(agx_orin: Path, shared_data: Path) -> None:
    (file,) = (shared_data / "nvpmodel").glob("*agx_orin64_jp5_nvpmodel_p_verbose.txt")
    ours = run(agx_orin, "nvpmodel", "-p", "--verbose").stdout.splitlines()
    theirs = file.read_text().splitlines()
    start = "NVPM VERB: POWER_MODEL: ID=0"
    mine, recorded = (
        lines[next(i for i, line in enumerate(lines) if line.startswith(start)) :]
        for lines in (ours, theirs)
    )
    # JetPack 5 has 0 for an EMC without a cap, r36 has -1, printed as the highest integer.
    uncapped = "NVPM VERB: EMC MAX_FREQ 9223372036854775807"
    mine = ["NVPM VERB: EMC MAX_FREQ 0" if line == uncapped else line for line in mine]
    assert [line.strip() for line in mine] == [line.strip() for line in recorded]


def test_a_power_cut_kills_who_called(agx_orin: Path) -> None:
    set_fault(agx_orin, "power_cut", 6)
    tool = str(agx_orin / "usr/sbin/nvpmodel")
    code = f"import subprocess; subprocess.run([{tool!r}, '-m', '1']); print('lived')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    # Six writes were done: of the cores 0 to 5, the last two were switched off.
    assert awaited(lambda: text(agx_orin, f"{CPU}/cpu5/online") == "0")
    assert text(agx_orin, f"{CPU}/cpu6/online") == "1"
    assert text(agx_orin, "var/lib/nvpmodel/status") == "pmode:0002"


def test_the_tools_of_a_copy_touch_the_copy_alone(agx_orin: Path, tmp_path: Path) -> None:
    before = snapshot(agx_orin)
    copy = tmp_path / "copy of a board"
    shutil.copytree(agx_orin, copy, symlinks=True)
    compiled = {path: path.stat().st_mtime_ns for path in copy.rglob("*.pyc")}
    run(copy, "nvpmodel", "-m", "0")
    assert snapshot(agx_orin) == before
    assert text(copy, "var/lib/nvpmodel/status") == "pmode:0000"
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*.pyc")} == compiled


def test_jetson_clocks_locks_and_restores(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    assert run(agx_orin, "jetson_clocks", "--store").returncode == 0
    assert run(agx_orin, "jetson_clocks").returncode == 0
    assert number(agx_orin, f"{CPU}/cpu0/cpufreq/scaling_min_freq") == 1728000
    assert number(agx_orin, f"{GPU}/min_freq") == 612000000
    assert number(agx_orin, f"{EMC}/mrq_rate_locked") == 1
    assert number(agx_orin, f"{EMC}/rate") == 3199000000
    assert number(agx_orin, f"{CPU}/cpu0/cpuidle/state1/disable") == 1
    assert run(agx_orin, "jetson_clocks", "--restore").returncode == 0
    after = snapshot(agx_orin)
    del after["root/l4t_dfs.conf"]
    assert after == before


def test_jetson_clocks_restores_nothing_that_it_did_not_store(
    agx_orin: Path, tmp_path: Path
) -> None:
    done = run(agx_orin, "jetson_clocks", "--restore")
    assert done.returncode != 0
    assert "--store" in done.stderr
    mine = str(tmp_path / "mine")
    assert run(agx_orin, "jetson_clocks", "--store", mine).returncode == 0
    assert run(agx_orin, "jetson_clocks", "--restore", mine).returncode == 0


def test_jetson_clocks_shows_and_can_fail(agx_orin: Path) -> None:
    done = run(agx_orin, "jetson_clocks", "--show")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("SOC family:tegra234  Machine:NVIDIA Jetson AGX Orin")
    assert "simulated" in lines[0]
    assert lines[1] == "Online CPUs: 0-7"
    # In the order of the shell's glob, as recorded: cpu0, cpu1, cpu10, cpu11, cpu2
    assert [line.split(":")[0] for line in lines[2:7]] == ["cpu0", "cpu1", "cpu10", "cpu11", "cpu2"]
    assert "Active GPU TPCs: 4" in lines
    assert "GPU MinFreq=306000000 MaxFreq=612000000 CurrentFreq=306000000" in lines
    assert lines[-1] == "NV Power Mode: MODE_30W"
    set_fault(agx_orin, "jetson_clocks_fails", value=True)
    again = run(agx_orin, "jetson_clocks", "--show")
    assert again.returncode != 0
    assert again.stdout == done.stdout


FORMS = {
    "tx2": r"RAM \d+/\d+MB \(lfb \d+x4MB\) SWAP 0/0MB \(cached 0MB\) CPU \[.+\] EMC_FREQ \d+%.* "
    r"VDD_SYS_GPU \d+/\d+ VDD_SYS_SOC \d+/\d+ VDD_4V0_WIFI 0/0 VDD_IN \d+/\d+ "
    r"VDD_SYS_CPU \d+/\d+ VDD_SYS_DDR \d+/\d+",
    "xavier-nx": r"DATE RAM .* GR3D_FREQ \d+%.* CPU@[\d.]+C .*VDD_IN \d+mW/\d+mW "
    r"VDD_CPU_GPU_CV \d+mW/\d+mW VDD_SOC \d+mW/\d+mW",
    "agx-orin": r"DATE RAM .* CPU \[(\d+%@\d+,){8}off,off,off,off\] .*GR3D_FREQ \d+%.* cpu@[\d.]+C "
    r".*VDD_GPU_SOC \d+mW/\d+mW VDD_CPU_CV \d+mW/\d+mW VIN_SYS_5V0 \d+mW/\d+mW "
    r"VDDQ_VDD2_1V8AO \d+mW/\d+mW",
    "thor": r"DATE RAM \S+ \(lfb \d+x4MB\) CPU .*tj@[\d.]+C .*VDD_GPU -?\d+mW/-?\d+mW "
    r"VDD_CPU_SOC_MSS \d+mW/\d+mW VIN_SYS_5V0 \d+mW/\d+mW VIN \d+mW/\d+mW",
}
DATE = r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d"


def lines_of(root: Path, n: int) -> Iterator[str]:
    command = [str(root / "usr/bin/tegrastats"), "--interval", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        for _ in range(n):
            yield tool.stdout.readline().rstrip("\n")
        tool.terminate()


@pytest.mark.parametrize("name", FORMS)
def test_tegrastats_prints_its_release_s_lines(name: str, tmp_path: Path) -> None:
    root = create_board(name, tmp_path)
    set_load(root, cpu=0.5, gpu=0.5)
    with running(root):
        for line in lines_of(root, 3):
            assert re.fullmatch(FORMS[name].replace("DATE", DATE), line), line


def test_a_user_sees_less_of_tegrastats_than_root(agx_orin: Path) -> None:
    set_fault(agx_orin, "tegrastats_user", value=True)
    (line,) = lines_of(agx_orin, 1)
    assert "EMC_FREQ" not in line
    assert " GR3D_FREQ 0% " in line


def test_tegrastats_shows_the_rails_that_are_there(agx_orin: Path) -> None:
    set_fault(agx_orin, "rail_missing", "VDD_CPU_CV")
    set_fault(agx_orin, "labels_swapped", ["VDD_GPU_SOC", "VIN_SYS_5V0"])
    (line,) = lines_of(agx_orin, 1)
    rails = re.findall(r"(V\w+) \d+mW/", line)
    assert rails == ["VIN_SYS_5V0", "VDD_GPU_SOC", "VDDQ_VDD2_1V8AO"]


def test_tegrastats_can_be_cut_in_half(agx_orin: Path) -> None:
    set_fault(agx_orin, "tegrastats_cut", 0.5)
    (line,) = lines_of(agx_orin, 1)
    assert "CPU [" in line
    assert "VDD_CPU_CV" not in line


def test_tegrastats_writes_a_log_and_is_stopped(agx_orin: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tool_path = str(agx_orin / "usr/bin/tegrastats")
    command = [tool_path, "--interval", "5", "--logfile", str(log)]
    with subprocess.Popen(command) as tool:
        assert awaited(lambda: log.exists() and log.read_text().count("\n") >= 2)
        assert run(agx_orin, "tegrastats", "--stop").returncode == 0
    assert tool.returncode == -signal.SIGTERM
    assert run(agx_orin, "tegrastats", "--stop").returncode != 0
