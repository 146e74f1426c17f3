"""What a training step keeps against the tensors that PyTorch saves; skips without it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mansard.estimator import score, totals

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'mansard[export]'")
nn = torch.nn
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # theirs are no errors


def convolutions() -> Any:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.Sigmoid(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(32, 10)),
    )


def encoder() -> Any:
    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(64, 64) for _ in range(4))
            self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x: Any) -> Any:
            batch, steps, _ = x.shape
            heads = [
                layer(x).view(batch, steps, 4, 16).transpose(1, 2)
                for layer in (self.q, self.k, self.v)
            ]
            scores = torch.softmax(heads[0] @ heads[1].transpose(-1, -2) / 4.0, -1)
            seen = (scores @ heads[2]).transpose(1, 2).reshape(batch, steps, 64)
            y = x + self.o(seen)
            return y + self.narrow(torch.relu(self.wide(y)))

    return Encoder()


def bytes_saved_by_torch(module: Any, example: Any) -> int:
    """Distinct storages that autograd keeps, without the module's own."""
    own = {one.untyped_storage().data_ptr() for one in module.parameters()}
    kept: dict[int, Any] = {}  # the tensors stay alive, so that no address is used twice

    def pack(tensor: Any) -> Any:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(example)
    return sum(
        tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in own
    )


@pytest.mark.parametrize(
    ("make", "shape"), [(convolutions, (2, 3, 32, 32)), (encoder, (2, 24, 64))]
)
def test_what_is_saved_is_what_torch_saves(make: Any, shape: tuple[int, ...]) -> None:
    module, example, file = make(), torch.zeros(shape), io.BytesIO()
    torch.onnx.export(module, (example,), file, dynamo=False, opset_version=17)
    ours = totals(score(file.getvalue(), phase="training")).saved_bytes
    assert ours == bytes_saved_by_torch(module, example) > 100_000
