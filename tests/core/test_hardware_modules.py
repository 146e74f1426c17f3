"""The table of modules: its numbers by hand, and where each comes from."""

from __future__ import annotations

import re

import pytest

from mansard.core.hardware import MODULES, Module, jetpack_of

# Fields that hold a number, or nothing: both need a source.
NUMBERS = {
    "sm",
    "n_sms",
    "n_tpcs",
    "chip_tpcs",
    "gpu_hz",
    "super_gpu_hz",
    "l2_bytes",
    "memory_bus_bits",
    "memory_hz",
    "super_memory_hz",
    "memory_port_bytes",
    "cpu_clusters",
}
ROWS = sorted({module.name: module for module in MODULES.values()}.items())


@pytest.mark.parametrize("module", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_number_of_a_module_has_its_source(module: Module) -> None:
    assert set(module.sources) == NUMBERS
    assert all(module.sources.values())
    assert module.metering.source


@pytest.mark.parametrize("module", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_module_does_not_contradict_itself(module: Module) -> None:
    assert all(re.fullmatch(r"p[0-9]{4}-[0-9]{4}", part) for part in module.part_numbers)
    assert set(module.total_rails) <= set(module.rails)
    assert len(set(module.rails)) == len(module.rails)
    assert sorted(cpu for c in module.cpu_clusters for cpu in c.cpus) == list(range(module.n_cpus))
    assert module.highest_gpu_hz >= module.gpu_hz
    assert module.highest_memory_hz >= module.memory_hz
    if module.n_tpcs is not None and module.chip_tpcs is not None:
        assert module.n_sms == 2 * module.n_tpcs  # two SMs in each TPC
        assert module.n_tpcs <= module.chip_tpcs


def test_numbers_that_nobody_confirmed_say_so() -> None:
    unconfirmed = {
        (name, field)
        for name, module in ROWS
        for field in ("gpu_hz", "l2_bytes")
        if "from memory, not confirmed" in module.sources[field]
    }
    assert unconfirmed == {
        ("Jetson AGX Orin 32GB", "gpu_hz"),
        ("Jetson AGX Orin 32GB", "l2_bytes"),
        ("Jetson AGX Orin Industrial", "gpu_hz"),
        ("Jetson AGX Xavier", "l2_bytes"),
        ("Jetson Orin Nano 4GB", "l2_bytes"),
    }


@pytest.mark.parametrize(
    ("part_number", "name", "soc", "sm", "sms_cpus_kib"),
    [
        ("p3701-0000", "Jetson AGX Orin developer kit", "tegra234", 87, (16, 12, 4096)),
        ("p3701-0005", "Jetson AGX Orin 64GB", "tegra234", 87, (16, 12, 4096)),
        ("p3701-0004", "Jetson AGX Orin 32GB", "tegra234", 87, (14, 8, 4096)),
        ("p3701-0008", "Jetson AGX Orin Industrial", "tegra234", 87, (16, 12, 4096)),
        ("p3767-0000", "Jetson Orin NX 16GB", "tegra234", 87, (8, 8, 2048)),
        ("p3767-0001", "Jetson Orin NX 8GB", "tegra234", 87, (8, 6, 2048)),
        ("p3767-0003", "Jetson Orin Nano 8GB", "tegra234", 87, (8, 6, 2048)),
        ("p3767-0005", "Jetson Orin Nano 8GB", "tegra234", 87, (8, 6, 2048)),
        ("p3767-0004", "Jetson Orin Nano 4GB", "tegra234", 87, (4, 6, 2048)),
        ("p2888-0001", "Jetson AGX Xavier", "tegra194", 72, (8, 8, 512)),
        ("p2888-0004", "Jetson AGX Xavier", "tegra194", 72, (8, 8, 512)),
        ("p3668-0001", "Jetson Xavier NX", "tegra194", 72, (6, 6, 512)),
        ("p3310-1000", "Jetson TX2", "tegra186", 62, (2, 6, 512)),
        ("p3489-0888", "Jetson TX2 4GB or TX2i", "tegra186", 62, (2, 6, 512)),
        ("p3636-0001", "Jetson TX2 NX", "tegra186", 62, (2, 6, 512)),
        ("p3448-0000", "Jetson Nano", "tegra210", 53, (1, 4, 256)),
        ("p3834-0008", "Jetson Thor T5000", "tegra264", 110, (20, 14, 32768)),
    ],
)
def test_modules_by_part_number(
    part_number: str, name: str, soc: str, sm: int, sms_cpus_kib: tuple[int, int, int]
) -> None:
    module = MODULES[part_number]
    assert (module.name, module.soc, module.sm) == (name, soc, sm)
    assert module.l2_bytes is not None
    assert (module.n_sms, module.n_cpus, module.l2_bytes // 1024) == sms_cpus_kib


@pytest.mark.parametrize(
    ("part_number", "total", "parts"),
    [
        ("p3448-0000", ["POM_5V_IN"], ["POM_5V_GPU", "POM_5V_CPU"]),
        (
            "p3310-1000",
            ["VDD_IN"],
            ["VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI", "VDD_SYS_CPU", "VDD_SYS_DDR"],
        ),
        ("p3636-0001", ["VDD_IN"], ["VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_SYS_CPU", "VDD_SYS_DDR"]),
        ("p3668-0001", ["VDD_IN"], ["VDD_CPU_GPU_CV", "VDD_SOC"]),
        ("p3767-0005", ["VDD_IN"], ["VDD_CPU_GPU_CV", "VDD_SOC"]),
        ("p2888-0001", ["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"], []),
        ("p3701-0005", ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"], ["VDDQ_VDD2_1V8AO"]),
        ("p3834-0008", ["VIN"], ["VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"]),
    ],
)
def test_which_rails_make_the_total(part_number: str, total: list[str], parts: list[str]) -> None:
    module = MODULES[part_number]
    assert list(module.total_rails) == total
    assert list(module.metering.part_rails) == parts
    assert all(rail in module.total_rule for rail in total)
    assert "wall is 10 to 15 % higher" in module.boundary


def test_the_denver_cores_of_tx2_are_a_cluster_of_their_own() -> None:
    clusters = {cluster.core: cluster.cpus for cluster in MODULES["p3310-1000"].cpu_clusters}
    assert clusters == {"Cortex-A57": (0, 3, 4, 5), "Denver 2": (1, 2)}


@pytest.mark.parametrize(
    ("l4t", "jetpack"),
    [
        ("28.2.0", "3.2"),
        ("32.7.4", "4.6.4"),
        ("35.1.0", "5.0.2"),
        ("35.4.1", "5.1.2"),
        ("35.5.0", "5.1.3"),
        ("36.3", "6.0"),
        ("36.3.0", "6.0"),
        ("36.4.0", "6.1"),
        ("36.4.3", "6.2"),
        ("36.4.7", "6.2.1"),
        ("36.5.0", "6.2.2"),
        ("38.2.0", "7.0"),
        ("38.4.0", "7.1"),
        ("39.2.0", "7.2"),
        ("36.9.9", None),  # not taken for its neighbour
        ("", None),
        (".0", None),
    ],
)
def test_jetpack_by_release(l4t: str, jetpack: str | None) -> None:
    assert jetpack_of(l4t) == jetpack
