"""A network of torchvision with random weights; nothing is downloaded."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mansard.estimator.export.extras import need
from mansard.estimator.export.network import Input, Network, foreign_code, refuse_unknown

# Frames of a clip (torchvision's documentation of the Kinetics video classifiers).
_FRAMES = 16
_SEED = 0
_SLOW_TO_FILL = frozenset({"googlenet", "inception_v3"})  # warn about it at length, too


def build_from_torchvision(name: str, settings: Mapping[str, object]) -> Network:
    """``torchvision.models.get_model(name)`` and an image of the size it was trained on.

    Raises UsageError for a network that torchvision does not have.
    """
    need("torch")
    models = need("torchvision").models
    known = models.list_models()
    if name not in known:
        refuse_unknown("torchvision's network", name, known)
    taken = inspect.signature(models.get_model_builder(name)).parameters
    absent: dict[str, object] = dict.fromkeys(("weights", "weights_backbone"))
    arguments = {key: value for key, value in absent.items() if key in taken}
    if name in _SLOW_TO_FILL:
        arguments["init_weights"] = False
    with foreign_code(f"torchvision.models.{name}"):
        module = models.get_model(name, **{**arguments, **settings})
        _fill_weights(module)
    return Network(name, module, image_inputs(models.get_model_weights(name)))


def _fill_weights(module: Any) -> None:
    """Weights that let a signal through (He et al., arXiv:1502.01852), the same every time.

    As built, some networks damp it to nothing before the output: then any file would
    agree with PyTorch.
    """
    torch = need("torch")
    torch.manual_seed(_SEED)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.modules.conv._ConvNd):
            torch.nn.init.kaiming_normal_(layer.weight)


def image_inputs(weights: Any) -> tuple[Input, ...]:
    """The image, or clip, that a network's published weights were evaluated on.

    Empty where they do not say: such a network needs ``--input``.
    """
    published = getattr(weights, "DEFAULT", None)
    transforms = getattr(published, "transforms", None)
    crop = getattr(transforms, "keywords", {}).get("crop_size")
    if isinstance(crop, int):
        return (Input("x", (1, 3, crop, crop), "float32"),)
    if isinstance(crop, tuple | list) and len(crop) == 2:
        return (Input("x", (1, 3, _FRAMES, *crop), "float32"),)
    return ()
