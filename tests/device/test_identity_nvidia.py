"""Driver, cards and CUDA toolkit by the files that tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.identity import identify, read_cards, read_cuda, read_driver
from tests.device.identity_boards import write

CUDA = "usr/local/cuda"


@pytest.mark.parametrize(
    ("path", "text", "version"),
    [
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32\n"
            "GCC version:  gcc version 11.4.0 (Ubuntu)\n",
            "535.129.03",
        ),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build\n",
            "540.4.0",
        ),
        ("sys/module/nvidia/version", "580.65.06\n", "580.65.06"),
        ("proc/driver/nvidia/version", "GCC version only\nGCC version: 11.4.0\n", None),
        ("sys/module/nvidia/version", "none\n", None),
    ],
)
def test_the_driver(tmp_path: Path, path: str, text: str, version: str | None) -> None:
    write(tmp_path, path, text)
    assert read_driver(tmp_path) == version


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.6.68"}}', "12.6.68"),
        ("version.txt", "CUDA Version 10.2.300\n", "10.2.300"),
        ("version.json", '{"cuda": {"version": 12}}', None),
        ("version.json", '{"cuda": {"version": "twelve"}}', None),
        ("version.json", '["cuda"]', None),
        ("version.json", '{"cuda": {"version": "12.', None),
        ("version.json", "[" * 60_000, None),
        ("version.txt", "CUDA\n", None),
    ],
)
def test_the_toolkit(tmp_path: Path, name: str, text: str, version: str | None) -> None:
    write(tmp_path, f"{CUDA}/{name}", text)
    assert read_cuda(tmp_path) == version


def compiler(root: Path, script: str) -> None:
    write(root, f"{CUDA}/bin/nvcc", f"#!/bin/sh\n{script}\n")
    (root / CUDA / "bin/nvcc").chmod(0o755)


def test_a_toolkit_that_only_its_compiler_tells_of(tmp_path: Path) -> None:
    compiler(tmp_path, "echo 'Cuda compilation tools, release 12.6, V12.6.68'")
    assert read_cuda(tmp_path) == "12.6.68"


@pytest.mark.parametrize("script", ["exit 3", "printf '\\377\\000V'", "kill -9 $$"])
def test_a_compiler_that_does_not_answer(tmp_path: Path, script: str) -> None:
    compiler(tmp_path, script)
    assert read_cuda(tmp_path) is None


def test_a_compiler_that_may_not_run(tmp_path: Path) -> None:
    compiler(tmp_path, "echo V12.6")
    (tmp_path / CUDA / "bin/nvcc").chmod(0o644)
    assert read_cuda(tmp_path) is None


def test_a_machine_with_a_card_tells_card_driver_and_toolkit(tmp_path: Path) -> None:
    gpus = "proc/driver/nvidia/gpus"
    write(tmp_path, f"{gpus}/0000:01:00.0/information", "Model: \t NVIDIA H200\nIRQ: 1\n")
    write(tmp_path, f"{gpus}/0000:02:00.0/information", "Model:\nIRQ: 7\n")
    write(tmp_path, "sys/module/nvidia/version", "580.65.06\n")
    write(tmp_path, f"{CUDA}/version.json", '{"cuda": {"version": "13.0.1"}}')
    machine = identify(tmp_path, (0,))
    # Until its kernels exist, a machine with a card is measured as a CPU.
    assert (machine.kind, machine.driver, machine.cuda) == ("gpu", "580.65.06", "13.0.1")
    assert machine.accelerators == ("NVIDIA H200", "NVIDIA GPU of unknown model")
    assert read_cards(tmp_path) == machine.accelerators
