"""What modules' memory leaves to programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mansard.core.errors import UsageError
from mansard.core.hardware.memory import MODULE_MEMORY, module_memory

MIB = 1 << 20


def test_a_module_gives_its_memory_less_carve_outs_and_the_system() -> None:
    # Orin Nano 8GB: MemTotal 7607 to 7620 MiB, the idle system 944 to 1748
    nano = module_memory("orin-nano-8gb")
    assert nano.low_bytes == (7607 - 1748) * MIB == 5859 * MIB
    assert nano.high_bytes == (7620 - 944) * MIB == 6676 * MIB


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Jetson AGX Orin 64GB", "agx-orin-64gb"),
        ("orin nano super 8 GB", "orin-nano-8gb"),
        ("thor", "thor-128gb"),
        ("Orin_NX_16", "orin-nx-16gb"),
        ("xavier-nx", "xavier-nx-8gb"),
        ("orin-nano-super", "orin-nano-8gb"),  # the developer kit has 8 GB
        ("NVIDIA Jetson Orin Nano Developer Kit", "orin-nano-8gb"),
        ("agx-orin-3", "agx-orin-32gb"),
        ("agx orin 32 GB dev kit", "agx-orin-32gb"),
    ],
)
def test_modules_are_found_by_their_usual_names(name: str, key: str) -> None:
    assert module_memory(name) is MODULE_MEMORY[key]


def test_a_name_of_several_or_of_none_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"several modules are called 'agx-orin'.*32gb, agx-orin-64"
    ):
        module_memory("agx-orin")
    with pytest.raises(UsageError, match=r"called 'orin'; use one of orin-nano-4gb.*agx-orin-64gb"):
        module_memory("orin")
    with pytest.raises(UsageError, match="called 'agx-onin'; did you mean agx-orin-32gb, agx-ori"):
        module_memory("agx-onin")
    # The board has a variant of that size, but its memory is not in the table.
    sizes = ("nano-2gb", "Jetson Nano 2GB Developer Kit", "xavier-nx-16gb", "agx-xavier-64gb")
    for name in ("rtx", "", "--", "<script>", "o" * 500, *sizes):
        with pytest.raises(UsageError, match="no module is called"):
            module_memory(name)


def test_more_is_never_given_than_linux_has() -> None:
    for memory in MODULE_MEMORY.values():
        assert 0 < memory.low_bytes < memory.high_bytes < memory.total_bytes + 1000 * MIB


@pytest.mark.shared_data
def test_recorded_boards_have_the_totals_of_the_table(shared_data: Path) -> None:
    logs = {
        "gwonxhj__orin_nano__tegrastats_idle.log": "orin-nano-8gb",
        "rbonghi+jetson_stats__orin_agx_jp7.2_l4t39.2_line.txt": "agx-orin-64gb",
        "thynics+jetson_dvfs__tx2_vgg19_gpu_freq_sweep_full.txt": "tx2-8gb",
    }
    for name, key in logs.items():
        text = (shared_data / "tegrastats" / name).read_text("utf-8", "replace")
        pairs = [(int(used), int(total)) for used, total in re.findall(r"RAM (\d+)/(\d+)MB", text)]
        given, total = MODULE_MEMORY[key], pairs[0][1] * MIB
        assert given.total_bytes <= total < given.total_bytes * 1.005
        # what the least loaded line leaves is within the range, or below it: programs ran
        assert total - min(used for used, _ in pairs) * MIB <= given.high_bytes
