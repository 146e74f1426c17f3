"""Every recorded configuration and dump: modes whose clocks equal the file's.

The file is read a second time by the plainest means, a pattern over its lines, that knows
nothing of sections' rules, parameters or units but what the assertions say.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mansard.core.hardware import MODULES
from mansard.core.records import PowerMode
from mansard.device.nvpmodel.config import load_config
from mansard.device.nvpmodel.modes import board_modes
from mansard.device.power_modes.listing import list_config

pytestmark = pytest.mark.shared_data
UNCAPPED = {"-1", "0", "2147483647", "9223372036854775807"}


def plain_modes(text: str) -> dict[str, dict[str, str]]:
    """Mode -> "PARAM ARG" -> value, from every line of three words after a mode's header."""
    modes: dict[str, dict[str, str]] = {}
    settings: dict[str, str] = {}
    for raw in text.splitlines():
        if raw.startswith("#"):
            continue
        line = raw.removeprefix("NVPM VERB:").strip()
        header = re.search(r"POWER_MODEL:? ID=(\d+) NAME=(\S+)", line)
        if header:
            settings = modes.setdefault(header[2].removeprefix("MODE_"), {})
            settings["id"] = header[1]
        elif re.fullmatch(r"[A-Z0-9_]+ [A-Z0-9_]+ \S+", line) and "/" not in line:
            param, argument, value = line.split()
            settings[f"{param} {argument}"] = value
    return modes


def recorded(folder: Path) -> list[Path]:
    files = sorted((folder / "nvpmodel").iterdir())
    assert len(files) >= 18
    return files


def expected_hz(value: str | None, unit_hz: int = 1) -> float | None:
    return None if value is None or value in UNCAPPED else float(value) * unit_hz


def test_every_clock_of_every_mode_is_the_files(shared_data: Path) -> None:
    n_modes = 0
    for path in recorded(shared_data):
        config = load_config(path)
        assert config.ignored == (), path.name
        found = board_modes(config, path.name).modes
        plain = plain_modes(path.read_text())
        assert [one.mode.name for one in found] == list(plain), path.name
        for one in found:
            settings = plain[one.mode.name]
            assert one.id == int(settings["id"])
            check_clocks(one.mode, settings)
            # Nothing of the mode was lost, nothing added.
            kept = {f"{s.param} {s.argument}": s.value for s in one.section.settings}
            assert kept == {key: value for key, value in settings.items() if key != "id"}
            n_modes += 1
    assert n_modes >= 84


def check_clocks(mode: PowerMode, settings: dict[str, str]) -> None:
    assert mode.gpu_hz == expected_hz(settings.get("GPU MAX_FREQ"))
    assert mode.memory_hz == expected_hz(settings.get("EMC MAX_FREQ"))
    dla = [
        expected_hz(value)
        for key, value in settings.items()
        if re.fullmatch(r"(DLA\d?_CORE|NAFLL_DLA) MAX_FREQ", key)
    ]
    assert mode.dla_hz == (min(hz for hz in dla if hz) if any(dla) else None)
    # Every core is listed but CPU 0 of TX2, which cannot be switched off.
    online = [value for key, value in settings.items() if key.startswith("CPU_ONLINE")]
    assert mode.n_cpus == online.count("1") + ("CPU_ONLINE CORE_0" not in settings)
    assert sum(len(cluster.cpus) for cluster in mode.clusters) in {0, mode.n_cpus}
    caps = [
        expected_hz(value, 1000)  # kHz
        for key, value in settings.items()
        if re.fullmatch(r"CPU_[A-Z0-9_]+ MAX_FREQ", key)
    ]
    assert {cluster.max_hz for cluster in mode.clusters} == set(caps)
    assert mode.cpu_hz == (max(cap for cap in caps if cap) if caps and all(caps) else None)


def test_the_default_is_the_one_the_file_names(shared_data: Path) -> None:
    for path in recorded(shared_data):
        text = path.read_text()
        number = re.search(r"^(?:< PM_CONFIG DEFAULT=(\d+) >|.*DEFAULT=\S+\((\d+)\))$", text, re.M)
        assert number is not None, path.name
        modes = board_modes(load_config(path), path.name)
        default = modes.find(modes.default or "")
        assert default is not None
        assert default.id == int(number[1] or number[2])


# (file's end, mode) -> CUDA cores: AGX Orin's as CUDA counted them on a board; the others by
# NVIDIA's data sheets and 2 SMs of 128 (Xavier: 64) cores for each TPC that is not gated.
CORES = {
    "p3701_0000.conf": {"15W": 768, "30W": 1024, "50W": 2048, "MAXN": 2048},
    "agx_orin64_jp5_nvpmodel_p_verbose.txt": {"15W": 768, "30W": 1024, "50W": 2048, "MAXN": 2048},
    "p3701_0004.conf": {"15W": 768, "30W": 1024, "40W": 1792, "MAXN": 1792},
    "p3767_0000.conf": {"10W": 512, "15W": 512, "25W": 1024, "MAXN": 1024},
    "p3767_0003.conf": {"7W": 512, "15W": 1024},
    "p3767_0003_super.conf": {"15W": 1024, "25W": 1024, "MAXN_SUPER": 1024},
    "p3767_0004.conf": {"10W": 512, "7W_AI": 512, "7W_CPU": 512},
    "nvpmodel_t194_p3668.conf": {"15W_2CORE": 384, "20W_6CORE": 384},
    "nvpmodel_t194.conf": {"MAXN": 512, "10W": 256, "30W_ALL": 512},
    "nvpmodel_t186.conf": {"MAXN": 256, "MAXQ": 256},
}


@pytest.mark.parametrize("end", CORES)
def test_gating_masks_give_the_cuda_cores_of_each_mode(shared_data: Path, end: str) -> None:
    (path,) = (path for path in recorded(shared_data) if path.name.endswith(end))
    listed = {one.mode.name: one.modelled.cuda_cores for one in list_config(path).modes}
    assert {name: listed[name] for name in CORES[end]} == CORES[end]


def test_a_dump_and_the_file_of_one_board_agree(shared_data: Path) -> None:
    folder = shared_data / "nvpmodel"
    file, dump = (
        board_modes(load_config(next(folder.glob(pattern))), pattern)
        for pattern in ("*p3701_0000.conf", "*jp5_nvpmodel_p_verbose.txt")
    )
    assert [one.mode for one in file.modes] == [one.mode for one in dump.modes]
    assert file.default == dump.default == "30W"


def test_the_modes_of_a_module_never_go_beyond_what_it_has(shared_data: Path) -> None:
    n_modules = 0
    for path in recorded(shared_data):
        listing = list_config(path)
        modules = [module for module in MODULES.values() if module.name == listing.module]
        n_modules += bool(modules)
        for one in listing.modes if modules else ():
            module = modules[0]
            assert one.mode.n_cpus <= module.n_cpus
            assert one.mode.n_sms is not None
            assert one.mode.n_sms <= module.n_sms
            assert one.resolved.gpu_hz is not None
            assert one.resolved.gpu_hz <= module.highest_gpu_hz
            assert one.resolved.memory_hz is not None
            assert one.resolved.memory_hz <= module.highest_memory_hz
    assert n_modules > 5
