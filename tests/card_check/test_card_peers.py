"""Duels with PyTorch, by a made-up torch whose calls take time on the software GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tools.card_check.opening import Card
from tools.card_check.software import software_card
from tools.card_check.steps.peers import compare_with_torch, duels


class Tensor:
    """A shape and a type; operations take 4 ms of the GPU's time."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.T = self

    def to(self, _kind: str) -> Tensor:
        return self

    def sum(self) -> None:
        spend(self.gpu)

    def copy_(self, _other: Tensor) -> None:
        spend(self.gpu)

    def __mul__(self, _factor: float) -> Tensor:
        return self

    def __sub__(self, _term: float) -> Tensor:
        return self


def spend(gpu: Any) -> None:
    gpu.busy_until_s = max(gpu.busy_until_s, gpu.host.now_s()) + 4e-3


class Event:
    """A mark on the software GPU."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self.at: Any = None

    def record(self) -> None:
        self.at = self._gpu.record()

    def synchronize(self) -> None:
        self._gpu.synchronize(self.at)

    def elapsed_time(self, end: Event) -> float:
        return float(1e3 * self._gpu.elapsed_s(self.at, end.at))


class Torch(ModuleType):
    """What the duels call of it; it has no product in 8-bit floats."""

    def __init__(self, gpu: Any) -> None:
        super().__init__("torch")
        self.__version__ = "2.99"
        self.float16, self.bfloat16, self.float32, self.float64 = "f16", "bf16", "f32", "f64"
        self.int8, self.float8_e4m3fn = "i8", "f8"
        matmul = SimpleNamespace(allow_tf32=False)
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
        self.cuda = SimpleNamespace(
            is_available=lambda: True, Event=lambda enable_timing: Event(gpu)
        )
        self._gpu = gpu

    def rand(self, *_shape: int, device: str) -> Tensor:
        return Tensor(self._gpu)

    def randint(self, *_given: object, device: str, dtype: str) -> Tensor:
        return Tensor(self._gpu)

    def ones(self, _shape: tuple[()], device: str) -> Tensor:
        return Tensor(self._gpu)

    def empty_like(self, _tensor: Tensor) -> Tensor:
        return Tensor(self._gpu)

    def matmul(self, _a: Tensor, _b: Tensor, out: Tensor) -> None:
        spend(self._gpu)

    def _int_mm(self, _a: Tensor, _b: Tensor) -> None:
        spend(self._gpu)

    def _scaled_mm(self, *_given: object, **_options: object) -> None:
        raise RuntimeError("not on this card")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = software_card("h100")
    monkeypatch.setitem(sys.modules, "torch", Torch(card.opened.runtime))
    return card


def test_every_product_and_stream_is_compared_at_its_own_size(card: Card) -> None:
    found = compare_with_torch(card)["duels"]
    names = [duel.name for duel in duels(card)]
    assert set(found) == set(names)
    assert {"gemm fp16", "gemm bf16", "gemm int8", "copy DRAM", "read DRAM"} <= set(names)
    # PyTorch takes 4 ms for 2 · 8192³ FLOP: 274.9 TFLOP/s; ours 852.7 by 0.9 of the limit.
    bf16 = found["gemm bf16"]
    assert bf16["peer_per_s"] == pytest.approx(2 * 8192**3 / 4e-3, rel=0.01)
    assert bf16["ratio"] == pytest.approx(852.7e12 / 274.9e12, rel=0.02)
    assert bf16["low"] <= bf16["ratio"] <= bf16["high"]
    if "gemm fp8" in found:
        assert found["gemm fp8"]["why"] == "RuntimeError: not on this card"


def test_without_pytorch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert compare_with_torch(software_card("h100")) == {"why": "PyTorch is not installed"}
