"""Free memory of a card, as NVML tells it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mansard.core.errors import DeviceError
from mansard.device.cards import read_card_memory


class NvmlError(Exception):
    """What NVML raises."""


def nvml(memory: Any) -> Any:
    """NVML with one card, which tells its memory; None: it refuses to."""

    def info(handle: int) -> Any:
        del handle
        if memory is None:
            raise NvmlError("Not Supported")
        return memory

    module: Any = ModuleType("pynvml")
    module.NVMLError = NvmlError
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetMemoryInfo = info
    return module


def test_free_and_total_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(free=3 << 30, total=8 << 30, used=5 << 30)
    monkeypatch.setitem(sys.modules, "pynvml", nvml(memory))
    assert read_card_memory() == (3 << 30, 8 << 30)


def test_a_card_that_does_not_say_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(None))
    with pytest.raises(DeviceError, match="does not say how much memory is free"):
        read_card_memory()
