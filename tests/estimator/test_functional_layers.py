"""Functional layers, nodes that work or move something, against NN-Profiler's counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import ModelScore
from mansard.estimator import is_functional, totals, zoo
from mansard.estimator.scoring import score as score_model

# NN-Profiler counts the modules of a PyTorch network that hold no others, and one of its own that
# flattens, before the last layer. By network, what its count has besides ours (below 0: lacks):
EXPLAINED = {
    # Dropouts do nothing in inference; the pool of 6 × 6 to 6 × 6 and the flattening move nothing.
    "alexnet": {"Dropout": 2, "AdaptiveAvgPool": 1, "flatten": 1},
    # Additions are no modules. Its flattening pools too, as GlobalAveragePool does here.
    "mobilenet_v2": {"Dropout": 1, "Add": -10},
    "mnasnet1_0": {"Dropout": 1, "Add": -10},
    # 17 modules are called as 49 ReLUs: 32 more here.
    "resnet50": {"flatten": 1, "Add": -16, "Relu": -32},
}


def score(name: str) -> ModelScore:
    return score_model(zoo.read(name), name=name, batch=1)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", EXPLAINED)
def test_the_difference_from_nn_profilers_count_is_explained(name: str, shared_data: Path) -> None:
    path = "networks/Varatheepan+NN-Profiler__README_multi_dnn_orin_nano_sample.json"
    sample = msgspec.json.decode((shared_data / path).read_bytes())
    theirs = sample["ModelInfo"][name]["cuda"]["functionalLayerCount"]
    assert totals(score(name)).n_functional_layers == theirs - sum(EXPLAINED[name].values())


@pytest.mark.shared_data
def test_its_numbers_of_layers_are_modules_one_level_down(shared_data: Path) -> None:
    """``numLayers.json`` counts AlexNet's 21 modules: a layer here is no block of others."""
    path = "networks/Varatheepan+NN-Profiler__multi_network_stats__numLayers.json"
    theirs = msgspec.json.decode((shared_data / path).read_bytes())
    # All modules of AlexNet lie one level down: 21, and 22 with the flattening of its own.
    n_ours = totals(score("alexnet")).n_functional_layers
    assert theirs["alexnet"] + 1 - sum(EXPLAINED["alexnet"].values()) == n_ours
    # MobileNetV2's 21 are its 19 blocks, a dropout and a linear layer; its leaves are 141.
    assert theirs["mobilenet_v2"] == 19 + 1 + 1


def test_layers_of_resnet50_by_operator() -> None:
    """53 convolutions and normalisations, 49 ReLUs, 16 additions, two pools, one Gemm."""
    found = score("resnet50")
    counts = Counter(layer.op_type for layer in found.layers if is_functional(layer))
    assert counts == {
        "Conv": 53,
        "BatchNormalization": 53,
        "Relu": 49,
        "Add": 16,
        "MaxPool": 1,
        "GlobalAveragePool": 1,
        "Gemm": 1,
    }
    # 53 + 53 + 49 + 16 + 1 + 1 + 1 = 174
    assert totals(found).n_functional_layers == 174
    assert totals(found).n_layers > 174
