"""The classifiers of images in the zoo."""

from __future__ import annotations

from collections.abc import Callable

from mansard.estimator.zoo.alexnet import alexnet
from mansard.estimator.zoo.builder import Graph
from mansard.estimator.zoo.densenet import densenet121
from mansard.estimator.zoo.efficientnet import efficientnet_b0, efficientnet_b2
from mansard.estimator.zoo.entries import Entry
from mansard.estimator.zoo.googlenet import googlenet
from mansard.estimator.zoo.inception import inception_v3
from mansard.estimator.zoo.inception_resnet import inception_resnet_v2
from mansard.estimator.zoo.mnasnet import mnasnet1_0
from mansard.estimator.zoo.mobilenet import mobilenet_v1, mobilenet_v2
from mansard.estimator.zoo.mobilenet_v3 import mobilenet_v3_large, mobilenet_v3_small
from mansard.estimator.zoo.resnet import resnet18, resnet50, resnet101, resnet152
from mansard.estimator.zoo.shufflenet import shufflenet_v2_x1_0
from mansard.estimator.zoo.squeezenet import squeezenet1_1
from mansard.estimator.zoo.swin import swin_t
from mansard.estimator.zoo.vgg import vgg16, vgg19
from mansard.estimator.zoo.vit import vit_b_16

_TORCHVISION = (
    "torchvision's documentation (its GFLOPS are multiply-adds), digits as in the metadata of "
    "the weights IMAGENET1K_V1; "
    "batch normalisation kept as nodes of its own, as in training"
)
_WITHOUT_AUXILIARY = (
    "; the documentation's 27,161,264 parameters less the 3,326,696 of the auxiliary classifier, "
    "which serves training only"
)
_TENSORRT = "; LayerNormalization nodes need TensorRT 8.6"


def _classifier(
    name: str,
    title: str,
    published_macs: float,
    published_parameters: int,
    draw: Callable[[], Graph],
    *,
    side: int = 224,
    source: str = _TORCHVISION,
    note: str = "",
) -> Entry:
    return Entry(
        name=name,
        title=title,
        task="image classification, 1000 classes",
        input=f"image: float32[batch, 3, {side}, {side}]",
        dims=(("batch", 1),),
        published_macs=published_macs,
        published_parameters=published_parameters,
        source=source + note,
        draw=draw,
    )


CLASSIFIERS: tuple[Entry, ...] = (
    _classifier("alexnet", "AlexNet", 0.714e9, 61_100_840, alexnet),
    _classifier("densenet121", "DenseNet-121", 2.834e9, 7_978_856, densenet121),
    _classifier("efficientnet_b0", "EfficientNet-B0", 0.386e9, 5_288_548, efficientnet_b0),
    _classifier(
        "efficientnet_b2", "EfficientNet-B2", 1.088e9, 9_109_994, efficientnet_b2, side=288
    ),
    _classifier("googlenet", "GoogLeNet", 1.498e9, 6_624_904, googlenet),
    _classifier(
        "inception_resnet_v2",
        "Inception-ResNet-v2",
        13.2e9,
        55_843_464,
        inception_resnet_v2,
        side=299,
        source="the model card of timm's inception_resnet_v2 (13.2 GMACs), whose parameters torch "
        "counts",
    ),
    _classifier(
        "inception_v3",
        "Inception-v3",
        5.713e9,
        23_834_568,
        inception_v3,
        side=299,
        note=_WITHOUT_AUXILIARY,
    ),
    _classifier("mnasnet1_0", "MNASNet 1.0", 0.314e9, 4_383_312, mnasnet1_0),
    _classifier(
        "mobilenet_v1",
        "MobileNet v1",
        0.569e9,
        4_231_976,
        mobilenet_v1,
        source="multiply-adds in the paper's table 4 (arXiv:1704.04861, 569 million); parameters "
        "as timm counts them in mobilenetv1_100 (the paper: 4.2 million)",
    ),
    _classifier("mobilenet_v2", "MobileNetV2", 0.301e9, 3_504_872, mobilenet_v2),
    _classifier("mobilenet_v3_large", "MobileNetV3 large", 0.217e9, 5_483_032, mobilenet_v3_large),
    _classifier("mobilenet_v3_small", "MobileNetV3 small", 0.057e9, 2_542_856, mobilenet_v3_small),
    _classifier("resnet101", "ResNet-101", 7.801e9, 44_549_160, resnet101),
    _classifier("resnet152", "ResNet-152", 11.514e9, 60_192_808, resnet152),
    _classifier("resnet18", "ResNet-18", 1.814e9, 11_689_512, resnet18),
    _classifier("resnet50", "ResNet-50", 4.089e9, 25_557_032, resnet50),
    _classifier("shufflenet_v2_x1_0", "ShuffleNet v2 x1.0", 0.145e9, 2_278_604, shufflenet_v2_x1_0),
    _classifier("squeezenet1_1", "SqueezeNet 1.1", 0.349e9, 1_235_496, squeezenet1_1),
    _classifier("swin_t", "Swin-T", 4.491e9, 28_288_354, swin_t, note=_TENSORRT),
    _classifier("vgg16", "VGG-16", 15.470e9, 138_357_544, vgg16),
    _classifier("vgg19", "VGG-19", 19.632e9, 143_667_240, vgg19),
    _classifier(
        "vit_b_16", "Vision Transformer B/16", 17.564e9, 86_567_656, vit_b_16, note=_TENSORRT
    ),
)
