"""Files of identity that hold junk: never a crash, and nothing that a terminal would obey."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.device.identity import identify
from tests.device.identity_boards import TREE, write, write_orin

FILES = [
    f"{TREE}/model",
    f"{TREE}/compatible",
    f"{TREE}/serial-number",
    f"{TREE}/chosen/ids",
    f"{TREE}/chosen/nvidia,sku",
    f"{TREE}/nvidia,dtsfilename",
    "etc/nv_tegra_release",
    "sys/devices/soc0/machine",
    "sys/devices/soc0/family",
    "etc/os-release",
    "etc/machine-id",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/sys/kernel/osrelease",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/gpus/0000:01:00.0/information",
    "sys/module/nvidia/version",
    "usr/local/cuda/version.json",
    "usr/local/cuda/version.txt",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu0/cache/index0/size",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
]
JUNK = {
    "binary": bytes(range(256)) * 4,
    "escapes": b"Jetson \x1b[2J\x1b]0;owned\x07\xe2\x80\xae orin\r\n",
    "megabyte": b"Jetson orin " * 90_000,
    "one megabyte of digits": b"9" * (1 << 20),
    "a number beyond 64 bits": b"9" * 1000,
    "endless range": b"0-99999999999999",
    "negative": b"-1",
    "nothing": b"",
    "superscript digits": "²³".encode(),
    "superscript quota": "²³ ²³".encode(),
    "superscript size": "²³K".encode(),
    "endless quota": b"9" * 10_000 + b" 9",
    "endless size": b"9" * 10_000 + b"K",
}


def check_identity(root: Path) -> None:
    machine = identify(root, (0, 1))
    assert machine.cpus
    assert machine.memory_bytes is None or machine.memory_bytes > 0
    assert all(0 < cache.size_bytes < 1 << 62 for cache in machine.caches)
    for text in (machine.name, machine.operating_system, machine.kernel_release):
        assert text.isprintable()
        assert len(text) < 2000
    assert all(card.isprintable() for card in machine.accelerators)
    assert len(msgspec.json.encode(machine)) < 20_000  # a record can be written, and stays small


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
@pytest.mark.parametrize("path", FILES)
def test_junk_in_one_file(tmp_path: Path, path: str, junk: bytes) -> None:
    write_orin(tmp_path, online="0-1")
    write(tmp_path, path, junk)
    check_identity(tmp_path)


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_junk_in_all_files(tmp_path: Path, junk: bytes) -> None:
    for path in FILES:
        write(tmp_path, path, junk)
    check_identity(tmp_path)


@pytest.mark.parametrize("path", FILES)
def test_a_folder_in_place_of_a_file(tmp_path: Path, path: str) -> None:
    write_orin(tmp_path, online="0-1")
    (tmp_path / path).unlink(missing_ok=True)
    (tmp_path / path).mkdir(parents=True)
    check_identity(tmp_path)


def test_a_file_in_place_of_every_folder(tmp_path: Path) -> None:
    for name in ("proc", "sys", "etc", "usr"):
        (tmp_path / name).write_bytes(b"\0")
    check_identity(tmp_path)


@given(content=st.binary(max_size=200), path=st.sampled_from(FILES))
def test_any_bytes_at_all(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, path: str
) -> None:
    root = tmp_path_factory.mktemp("board")
    write_orin(root, online="0-1")
    write(root, path, content)
    check_identity(root)


def test_an_escape_sequence_in_a_name_is_shown_not_obeyed(tmp_path: Path) -> None:
    write_orin(tmp_path)
    write(tmp_path, f"{TREE}/model", b"Jetson \x1b[2J Orin\0")
    assert identify(tmp_path, (0,)).name == r"Jetson \x1b[2J Orin"
