"""Files like those of CIFAR-10, and two networks that know their classes: one well, one badly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

N_CLASSES = 10


class Cifar:
    """Noisy images of ten patterns; ``small`` sees 2 % of the pixels, ``large`` all of them."""

    def __init__(self, folder: Path, n: int = 60, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        patterns = random.integers(40, 216, (N_CLASSES, 3, 4, 4)).astype(np.float32)
        self.patterns = np.kron(patterns, np.ones((1, 1, 8, 8), np.float32))
        self.labels = random.integers(0, N_CLASSES, n)
        noise = random.normal(0, 160, (n, 3, 32, 32))
        self.images = np.clip(self.patterns[self.labels] + noise, 0, 255).astype(np.uint8)
        self.seen = {"small": random.random((1, 3072)) < 0.02, "large": np.ones((1, 3072), bool)}
        self.data = folder / "test_batch.bin"
        write_cifar(self.data, self.labels, self.images)
        self.small, self.large = folder / "small.onnx", folder / "large.onnx"
        for path in (self.small, self.large):
            self._write(path)

    def probabilities(self, name: str) -> NDArray[np.float64]:
        """What the network gives of every image, by NumPy."""
        weights, bias = self._weights(name)
        pixels = (self.images / np.float32(255)).reshape(len(self.images), -1)
        scores = (pixels @ weights + bias).astype(np.float64)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _weights(self, name: str) -> tuple[Any, Any]:
        """Scores 2 c·x − |c|² of each pattern, greatest where |x − c|² is least."""
        centres = (self.patterns / 255).reshape(N_CLASSES, -1) * self.seen[name]
        return (2 * centres.T).astype(np.float32), (-(centres**2).sum(1)).astype(np.float32)

    def _write(self, path: Path) -> None:
        weights, bias = self._weights(path.stem)
        nodes = [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("Gemm", ["flat", "w", "b"], ["s"]),
            helper.make_node("Softmax", ["s"], ["scores"], axis=1),
        ]
        graph = helper.make_graph(
            nodes,
            path.stem,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 32, 32])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", N_CLASSES])],
            [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
        )
        ids = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), path)


def write_cifar(path: Path, labels: Any, images: Any, *, coarse: Any = None) -> None:
    """A binary file; ``coarse``: the first label of CIFAR-100."""
    n = len(labels)
    columns = [] if coarse is None else [np.asarray(coarse, np.uint8)[:, None]]
    columns += [np.asarray(labels, np.uint8)[:, None], np.asarray(images, np.uint8).reshape(n, -1)]
    np.concatenate(columns, axis=1).tofile(path)
