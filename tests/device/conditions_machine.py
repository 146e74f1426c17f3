"""A board of files for the tests of conditions: twelve cores in three clusters, as on AGX Orin."""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import Conditions, CpuCluster, PowerMode, Spread

CPUS = tuple(range(12))
GPU = "sys/devices/platform/17000000.gpu/devfreq/17000000.gpu"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"
OC = "sys/class/hwmon/hwmon1"
INA = "sys/class/hwmon/hwmon3"
PWM_FAN = "sys/class/hwmon/hwmon0"
HOST1X = "sys/devices/platform/bus@0/13e00000.host1x"


def put(root: Path, name: str, value: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def set_cpu_khz(root: Path, khz: int, cpus: tuple[int, ...] = CPUS) -> None:
    for cpu in cpus:
        put(root, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", khz)


def create_board(root: Path) -> Path:
    for cpu in CPUS:
        first = cpu // 4 * 4
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        put(root, f"{folder}/online", 1)
        put(root, f"{folder}/cpufreq/related_cpus", " ".join(map(str, range(first, first + 4))))
        put(root, f"{folder}/cpufreq/scaling_max_freq", 2_201_600)
        put(root, f"{folder}/cpufreq/scaling_min_freq", 2_201_600)
    set_cpu_khz(root, 2_201_600)
    for name in ("max_freq", "min_freq", "cur_freq"):
        put(root, f"{GPU}/{name}", 1_300_500_000)
    put(root, f"{EMC}/rate", 3_199_000_000)
    zones = (("cpu-thermal", 48_500), ("gpu-thermal", -256_000), ("soc0-thermal", 60_000))
    for number, (kind, celsius) in enumerate((*zones, ("tj-thermal", 50_250))):
        put(root, f"sys/class/thermal/thermal_zone{number}/type", kind)
        put(root, f"sys/class/thermal/thermal_zone{number}/temp", celsius)
    coolers = ("pwm-fan", "cpu-throttle-alert", "cpufreq-cpu0", "devfreq-17000000.gpu")
    for number, kind in enumerate(coolers):
        put(root, f"sys/class/thermal/cooling_device{number}/type", kind)
        put(root, f"sys/class/thermal/cooling_device{number}/cur_state", 0)
    put(root, f"{OC}/name", "soctherm_oc")
    for number in (1, 2, 3):
        put(root, f"{OC}/oc{number}_event_cnt", 5)
    put(root, f"{INA}/name", "ina3221")
    for channel, label in ((1, "VDD_GPU_SOC"), (2, "VDD_CPU_CV"), (3, "NC")):
        put(root, f"{INA}/in{channel}_label", label)
        put(root, f"{INA}/curr{channel}_crit_alarm", 0)
        put(root, f"{INA}/curr{channel}_max_alarm", 0)
    put(root, f"{PWM_FAN}/pwm1", 85)
    put(root, "sys/class/hwmon/hwmon2/rpm", 1600)
    put(root, f"{HOST1X}/15340000.vic/power/runtime_status", "suspended")
    put(root, f"{HOST1X}/154c0000.nvenc/power/runtime_status", "suspended")
    put(root, f"{HOST1X}/15880000.nvdla0/power/runtime_status", "suspended")
    set_swapped(root, 100, 200)
    set_clients(root, {})
    return root


def set_swapped(root: Path, n_in: int, n_out: int) -> None:
    put(root, "proc/vmstat", f"nr_free_pages 1000\npswpin {n_in}\npswpout {n_out}\npgfault 9")


def set_clients(root: Path, processes: dict[int, str]) -> None:
    lines = [f"user {name:>20} {pid:>8} {40 * pid:>10}K" for pid, name in processes.items()]
    text = "\n".join(["CLIENT   PROCESS   PID   SIZE", *lines, "total 999K"])
    put(root, "sys/kernel/debug/nvmap/iovmm/clients", text)


def conditions(**known: object) -> Conditions:
    """Conditions of which only ``known`` is known."""
    values = dict.fromkeys(Conditions.__struct_fields__[1:]) | known
    missing = [name for name, value in values.items() if value is None]
    return Conditions(**values, unknown=dict.fromkeys(missing, "not here"))


def steady(value: float) -> Spread:
    return Spread(before=value, low=value, high=value, after=value)


def mode(kind: str = "nvpmodel", **caps: float) -> PowerMode:
    clocks = dict.fromkeys(("cpu_hz", "gpu_hz", "memory_hz", "dla_hz", "n_sms", "power_limit_w"))
    values = clocks | caps
    missing = [name for name, value in values.items() if value is None]
    has_cpu = caps.get("cpu_hz") is not None
    clusters = (CpuCluster(cpus=CPUS, max_hz=caps["cpu_hz"]),) if has_cpu else ()
    return PowerMode(
        name="made up",
        kind=kind,  # type: ignore[arg-type]
        n_cpus=12,
        clusters=clusters,
        unknown=dict.fromkeys(missing, "not set"),
        **values,  # type: ignore[arg-type]
    )
