"""Functional layers as NN-Profiler counts them, beside ours.

It counts the modules of a PyTorch network that hold no others (layer_stats/utils/checker.py), and
the operation of its own that stands before the last layer (layer_stats/utils/operations.py). Ours
are the nodes of the ONNX file that work or move something. Between the two lie

- additions and other operations on two tensors, which are no modules;
- an activation that a block calls several times, which is one module;
- dropouts, which do nothing in inference and are not in the file;
- a pool of 6 × 6 to 6 × 6, which is not in the file either; and its own flattening, where that
  pools nothing. ``UNSEEN`` has the last two of each network that it publishes a count of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from mansard.core.records import LayerScore
from mansard.estimator import is_functional

UNSEEN: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "alexnet": {"Dropout": 2, "AdaptiveAvgPool": 1, "flatten": 1},
        # Its flattening pools too, as GlobalAveragePool does here.
        "mobilenet_v2": {"Dropout": 1},
        "mnasnet1_0": {"Dropout": 1},
        "resnet50": {"flatten": 1},
    }
)
_NO_MODULES = frozenset({"Add", "Sub", "Mul", "Div", "Concat", "Pad", "Slice"})
_ACTIVATIONS = frozenset({"Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "LeakyRelu"})
_CALL = re.compile(r"(.*[A-Za-z_])\d+", re.DOTALL)  # relu1, relu2: calls of one module


class FunctionalLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one network, and what lies between them."""

    ours: int
    no_modules: int  # operations that are no modules
    calls_again: int  # of a module that was called before
    unseen: dict[str, int] | None  # modules that are not in the file; None: not known

    @property
    def theirs(self) -> int | None:
        """By NN-Profiler's definition; None where what the file lacks is not known."""
        if self.unseen is None:
            return None
        return self.ours - self.no_modules - self.calls_again + sum(self.unseen.values())


def functional_layers(model: str, layers: Sequence[LayerScore]) -> FunctionalLayers:
    """The counts of a whole network; names of nodes are paths of modules, as in the zoo's files."""
    working = [layer for layer in layers if not layer.scope and is_functional(layer)]
    modules = [layer for layer in working if layer.op_type not in _NO_MODULES]
    unseen = UNSEEN.get(model)
    return FunctionalLayers(
        ours=len(working),
        no_modules=len(working) - len(modules),
        calls_again=len(modules) - len({_module(layer) for layer in modules}),
        unseen=None if unseen is None else dict(unseen),
    )


def _module(layer: LayerScore) -> str:
    match = _CALL.fullmatch(layer.name) if layer.op_type in _ACTIVATIONS else None
    return match[1] if match else layer.name
