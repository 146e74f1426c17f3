"""Small sysfs trees, one for each way in which generations of boards show their clocks.

Paths and frequencies are facts of real boards; what a test does not need is left out.
"""

from __future__ import annotations

from pathlib import Path

CPU = "sys/devices/system/cpu"
NANO_KHZ = (102000, 204000, 1428000, 1479000)
NANO_GPU = (76_800_000, 614_400_000, 921_600_000)
ORIN_KHZ = (115200, 729600, 1113600, 1190400, 1728000, 2201600)
ORIN_GPU = (306_000_000, 408_000_000, 612_000_000, 1_300_500_000)
THOR_GPU = (315_000_000, 1_575_000_000)


def write(root: Path, path: str, text: object) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def read(root: Path, path: str) -> str:
    return (root / path.lstrip("/")).read_text().strip()


def add_cpus(root: Path, clusters: tuple[tuple[int, ...], ...], khz: tuple[int, ...]) -> None:
    """CPUs that are on, cpufreq folders linked as kernels since 4.4 have them."""
    for cpus in clusters:
        policy = f"{CPU}/cpufreq/policy{cpus[0]}"
        write(root, f"{policy}/related_cpus", " ".join(map(str, cpus)))
        write(root, f"{policy}/scaling_available_frequencies", " ".join(map(str, khz)))
        write(root, f"{policy}/scaling_min_freq", khz[0])
        write(root, f"{policy}/scaling_max_freq", khz[-1])
        write(root, f"{policy}/scaling_governor", "schedutil")
        for cpu in cpus:
            write(root, f"{CPU}/cpu{cpu}/online", 1)
            (root / f"{CPU}/cpu{cpu}/cpufreq").symlink_to(f"../cpufreq/policy{cpus[0]}")


def add_devfreq(root: Path, folder: str, hz: tuple[int, ...]) -> None:
    write(root, f"{folder}/available_frequencies", " ".join(map(str, hz)))
    write(root, f"{folder}/min_freq", hz[0])
    write(root, f"{folder}/max_freq", hz[-1])
    write(root, f"{folder}/cur_freq", hz[0])
    write(root, f"{folder}/governor", "nvhost_podgov")


def add_bpmp(root: Path, khz: tuple[int, ...]) -> None:
    """The memory's debug files from TX2 to Orin; the table is in kHz, all else in Hz."""
    clock = "sys/kernel/debug/bpmp/debug/clk/emc"
    write(
        root, "sys/kernel/debug/bpmp/debug/emc/possible_rates", f"{' '.join(map(str, khz))} (kHz)"
    )
    write(root, f"{clock}/rate", khz[0] * 1000)
    write(root, f"{clock}/min_rate", khz[0] * 1000)
    write(root, f"{clock}/max_rate", khz[-1] * 1000)
    write(root, f"{clock}/mrq_rate_locked", 0)
    write(root, f"{clock}/state", 1)


def make_nano(root: Path) -> Path:
    add_cpus(root, ((0, 1, 2, 3),), NANO_KHZ)
    add_devfreq(root, "sys/devices/57000000.gpu/devfreq/57000000.gpu", NANO_GPU)
    write(root, "sys/devices/57000000.gpu/railgate_enable", 1)
    write(root, "sys/kernel/nvpmodel_emc_cap/emc_iso_cap", 0)
    override = "sys/kernel/debug/clk/override.emc"
    write(root, f"{override}/clk_update_rate", 204_000_000)
    write(root, f"{override}/clk_state", 0)
    write(root, "sys/kernel/debug/tegra_bwmgr/emc_min_rate", 204_000_000)
    write(root, "sys/kernel/debug/tegra_bwmgr/emc_max_rate", 1_600_000_000)
    return root


def make_orin(root: Path, *, release: int = 36) -> Path:
    """An AGX Orin with two of its clusters; r35 and r36 differ in every other path."""
    add_cpus(root, ((0, 1, 2, 3), (4, 5, 6, 7)), ORIN_KHZ)
    add_bpmp(root, (204000, 665600, 2133000, 3199000))
    write(root, "sys/kernel/debug/bpmp/debug/clk/nafll_dla0_core/rate", 1_600_000_000)
    if release == 35:
        add_devfreq(root, "sys/devices/17000000.ga10b/devfreq/17000000.ga10b", ORIN_GPU)
        (root / "sys/devices/17000000.ga10b/devfreq_dev").symlink_to("devfreq/17000000.ga10b")
        write(root, "sys/kernel/nvpmodel_emc_cap/emc_iso_cap", 0)
        host = "sys/devices/platform/13e40000.host1x/15880000.nvdla0/acm"
    else:
        device = "sys/devices/platform/bus@0/17000000.gpu"
        add_devfreq(root, f"{device}/devfreq/17000000.gpu", ORIN_GPU)
        write(root, f"{device}/tpc_pg_mask", 240)
        write(root, f"{device}/power/control", "auto")
        (root / "sys/class/devfreq").mkdir(parents=True)
        (root / "sys/class/devfreq/17000000.gpu").symlink_to(
            "../../devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu"
        )
        write(root, "sys/kernel/nvpmodel_clk_cap/emc", 3_199_000_000)
        host = "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0"
    write(root, f"{host}/clk_cap/dla0_core", 1_600_000_000)
    return root


def make_thor(root: Path) -> Path:
    add_cpus(root, ((0, 1),), ORIN_KHZ)
    add_devfreq(root, "sys/class/devfreq/gpu-gpc-0", THOR_GPU)
    add_devfreq(root, "sys/class/devfreq/gpu-nvd-0", (315_000_000, 1_692_000_000))
    add_devfreq(root, "sys/class/devfreq/bwmgr", (665_600_000, 2_750_000_000, 4_266_000_000))
    return root


def make_laptop(root: Path) -> Path:
    """x86 with intel_pstate: a policy for each CPU, no table, the first CPU always on."""
    for cpu in (0, 1):
        folder = f"{CPU}/cpu{cpu}/cpufreq"
        write(root, f"{folder}/related_cpus", cpu)
        write(root, f"{folder}/cpuinfo_min_freq", 400_000)
        write(root, f"{folder}/cpuinfo_max_freq", 4_200_000)
        write(root, f"{folder}/scaling_min_freq", 400_000)
        write(root, f"{folder}/scaling_max_freq", 4_200_000)
        write(root, f"{folder}/scaling_governor", "powersave")
    write(root, f"{CPU}/cpu1/online", 1)
    return root
