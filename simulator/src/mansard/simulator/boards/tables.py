"""What the boards' nvpmodel tables have in common: sections in the order of the real files."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.simulator.figures import Clock, Cluster, Gpu, Param, Setting

CPU = "/sys/devices/system/cpu"
CLK = "/sys/kernel/debug/bpmp/debug/clk"
UNCAPPED = "-1"


def steps(first: int, step: int, n: int, *rest: int) -> tuple[int, ...]:
    """``n`` frequencies ``step`` apart, and those that end the list."""
    return (*range(first, first + step * n, step), *rest)


def core_param(cpus: Sequence[int]) -> Param:
    """CPU_ONLINE: one switch for each core."""
    return Param(
        "FILE", "CPU_ONLINE", tuple((f"CORE_{cpu}", f"{CPU}/cpu{cpu}/online") for cpu in cpus)
    )


def file_param(name: str, argument: str, path: str, knext: str | None = None) -> Param:
    """A file that takes one value, with the newer kernel's path where it has one."""
    newer = ((f"{argument}_KNEXT", knext),) if knext else ()
    return Param("FILE", name, ((argument, path), *newer))


def gpu_file_params(knext: str | None = None, *, gates: bool = True) -> tuple[Param, ...]:
    """The GPU's own files, below gpu.0: gating of TPCs, and power control twice."""
    files = (
        ("TPC_POWER_GATING", "TPC_PG_MASK", "tpc_pg_mask"),
        ("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "power/control"),
        ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "power/control"),
    )
    return tuple(
        file_param(
            name, argument, f"/sys/devices/gpu.0/{file}", f"{knext}/{file}" if knext else None
        )
        for name, argument, file in files[0 if gates else 1 :]
    )


def cluster_params(clusters: Sequence[Cluster], *, knext: bool = True) -> tuple[Param, ...]:
    """One CLOCK section for each cluster, through its first CPU."""
    files = (
        ("FREQ_TABLE", "scaling_available_frequencies"),
        ("MAX_FREQ", "scaling_max_freq"),
        ("MIN_FREQ", "scaling_min_freq"),
    )
    endings = ("", "_KNEXT") if knext else ("",)
    return tuple(
        Param(
            "CLOCK",
            cluster.param,
            tuple(
                (argument + ending, f"{CPU}/cpu{cluster.cpus[0]}/cpufreq/{file}")
                for ending in endings
                for argument, file in files
            ),
        )
        for cluster in clusters
    )


def gpu_param(gpu: Gpu, name: str = "GPU") -> Param:
    """The GPU's CLOCK section; older kernels have its clock under another name."""
    files = (
        ("FREQ_TABLE", "available_frequencies"),
        ("MAX_FREQ", "max_freq"),
        ("MIN_FREQ", "min_freq"),
    )
    old = tuple((argument, f"{gpu.legacy or gpu.devfreq}/{file}") for argument, file in files)
    newer = gpu.knext or f"{gpu.devfreq.rpartition('/devfreq/')[0]}/devfreq_dev"
    new = tuple((f"{argument}_KNEXT", f"{newer}/{file}") for argument, file in files)
    return Param("CLOCK", name, old + new)


def cap_param(name: str, path: str, knext: str | None = None) -> Param:
    """A clock that has only a cap."""
    return Param("CLOCK", name, (("MAX_FREQ", path), ("MAX_FREQ_KNEXT", knext or path)))


def clock_params(clocks: Sequence[Clock]) -> tuple[Param, ...]:
    """The caps of the accelerators."""
    return tuple(cap_param(clock.name, clock.cap) for clock in clocks)


def core_settings(all_cpus: Sequence[int], on: Sequence[int]) -> tuple[Setting, ...]:
    """Which cores a mode has on."""
    return tuple(("CPU_ONLINE", f"CORE_{cpu}", str(int(cpu in on))) for cpu in all_cpus)


def cpu_settings(
    clusters: Sequence[Cluster], on: Sequence[int], khz: int | None
) -> tuple[Setting, ...]:
    """The clock range of each cluster that has a core on; None is uncapped."""
    cap = UNCAPPED if khz is None else str(khz)
    return tuple(
        setting
        for cluster in clusters
        if set(cluster.cpus) & set(on)
        for setting in (
            (cluster.param, "MIN_FREQ", str(cluster.first_khz)),
            (cluster.param, "MAX_FREQ", cap),
        )
    )


def gpu_settings(hz: int | None, masks: Sequence[Setting] = ()) -> tuple[tuple[Setting, ...], ...]:
    """What stands before and after the CPU clocks: gating and power, then the GPU's range."""
    before = (*masks, ("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "on"))
    after = (
        ("GPU", "MIN_FREQ", "0"),
        ("GPU", "MAX_FREQ", UNCAPPED if hz is None else str(hz)),
        ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "auto"),
    )
    return before, after
