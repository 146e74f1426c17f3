"""The networks of the zoo, with what others publish about them.

Single convolutions, one layer each, are there to compare the traffic that a board reports with
ours: the 25 of HaX-CoNN (PPoPP 2024, arXiv:2308.05869), whose use of the memory controller its
authors measured. They have 64 channels in and out, five sizes, square kernels of 1 to 5, one pixel
of padding whatever the kernel, a bias and a ReLU. https://github.com/ismetdagli/HaX-CoNN,
``convolution_characterization_prototxts/conv<size>_kernel<kernel>.prototxt``.
They are drawn when they are read: no file ships.
"""

from __future__ import annotations

from mansard.core.records import Record
from mansard.estimator.zoo import operators


class Entry(Record, frozen=True, kw_only=True):
    """One network of the zoo.

    ``dims`` are the free dimensions with the values to use where the user names
    none. ``published_macs`` is for these values, at the precision it is published
    with; ``published_parameters`` counts what training changes, so running means
    and variances are not in it.
    """

    name: str
    title: str
    task: str
    input: str
    dims: tuple[tuple[str, int], ...]
    published_macs: float | None
    published_parameters: int | None
    source: str


_TORCHVISION = (
    "torchvision's documentation (its GFLOPS are multiply-adds), digits as in the metadata of "
    "the weights IMAGENET1K_V1; "
    "batch normalisation kept as nodes of its own, as in training"
)
_TIMM = "the model card of timm's {} ({} GMACs), whose parameters torch counts"
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
    )


_CLASSIFIERS: tuple[Entry, ...] = (
    _classifier("alexnet", "AlexNet", 0.714e9, 61_100_840),
    _classifier("densenet121", "DenseNet-121", 2.834e9, 7_978_856),
    _classifier("efficientnet_b0", "EfficientNet-B0", 0.386e9, 5_288_548),
    _classifier("efficientnet_b1", "EfficientNet-B1", 0.687e9, 7_794_184, side=240),
    _classifier("efficientnet_b2", "EfficientNet-B2", 1.088e9, 9_109_994, side=288),
    _classifier("googlenet", "GoogLeNet", 1.498e9, 6_624_904),
    _classifier(
        "inception_resnet_v2",
        "Inception-ResNet-v2",
        13.2e9,
        55_843_464,
        side=299,
        source=_TIMM.format("inception_resnet_v2", 13.2),
    ),
    _classifier(
        "inception_v3",
        "Inception-v3",
        5.713e9,
        23_834_568,
        side=299,
        note=_WITHOUT_AUXILIARY,
    ),
    _classifier(
        "inception_v4",
        "Inception-v4",
        12.3e9,
        42_679_816,
        side=299,
        source=_TIMM.format("inception_v4", 12.3),
    ),
    _classifier("mnasnet0_5", "MNASNet 0.5", 0.104e9, 2_218_512),
    _classifier("mnasnet1_0", "MNASNet 1.0", 0.314e9, 4_383_312),
    _classifier(
        "mobilenet_v1",
        "MobileNet v1",
        0.569e9,
        4_231_976,
        source="multiply-adds in the paper's table 4 (arXiv:1704.04861, 569 million); parameters "
        "as timm counts them in mobilenetv1_100 (the paper: 4.2 million)",
    ),
    _classifier("mobilenet_v2", "MobileNetV2", 0.301e9, 3_504_872),
    _classifier("mobilenet_v3_large", "MobileNetV3 large", 0.217e9, 5_483_032),
    _classifier("mobilenet_v3_small", "MobileNetV3 small", 0.057e9, 2_542_856),
    _classifier("regnet_x_3_2gf", "RegNetX-3.2GF", 3.177e9, 15_296_552),
    _classifier("regnet_x_400mf", "RegNetX-400MF", 0.414e9, 5_495_976),
    _classifier("regnet_x_800mf", "RegNetX-800MF", 0.8e9, 7_259_656),
    _classifier("regnet_y_1_6gf", "RegNetY-1.6GF", 1.612e9, 11_202_430),
    _classifier("regnet_y_400mf", "RegNetY-400MF", 0.402e9, 4_344_144),
    _classifier("regnet_y_800mf", "RegNetY-800MF", 0.834e9, 6_432_512),
    _classifier("resnet101", "ResNet-101", 7.801e9, 44_549_160),
    _classifier("resnet152", "ResNet-152", 11.514e9, 60_192_808),
    _classifier("resnet18", "ResNet-18", 1.814e9, 11_689_512),
    _classifier("resnet34", "ResNet-34", 3.664e9, 21_797_672),
    _classifier("resnet50", "ResNet-50", 4.089e9, 25_557_032),
    _classifier("shufflenet_v2_x0_5", "ShuffleNet v2 x0.5", 0.04e9, 1_366_792),
    _classifier("shufflenet_v2_x1_0", "ShuffleNet v2 x1.0", 0.145e9, 2_278_604),
    _classifier("squeezenet1_0", "SqueezeNet 1.0", 0.819e9, 1_248_424),
    _classifier("squeezenet1_1", "SqueezeNet 1.1", 0.349e9, 1_235_496),
    _classifier("swin_t", "Swin-T", 4.491e9, 28_288_354, note=_TENSORRT),
    _classifier("vgg16", "VGG-16", 15.470e9, 138_357_544),
    _classifier("vgg19", "VGG-19", 19.632e9, 143_667_240),
    _classifier("vit_b_16", "Vision Transformer B/16", 17.564e9, 86_567_656, note=_TENSORRT),
)

_TOKENS = (("batch", 1), ("sequence", 128))
_WITH_PAST = (*_TOKENS, ("past_sequence", 0))
_READINGS = (("batch", 1), ("sequence", 50))
_PAST = (
    "input_ids: int64[batch, sequence], past_key_values.0 … {}, key and value: "
    "float32[batch, {}, past_sequence, 64]"
)
_TRANSFORMERS = (
    "parameters as torch counts them in transformers' {}; "
    "LayerNormalization nodes need TensorRT 8.6"
)
_ULTRALYTICS = (
    "Ultralytics' documentation: {} billion FLOPs at 640 pixels; its parameters are "
    "those before batch normalisation is folded, with the 16 fixed ones of the box decoder"
)
_NO_MACS = {"published_macs": "no figure is published for this input"}
_OUR_OWN = dict.fromkeys(
    ("published_macs", "published_parameters"), "our own network, published nowhere else"
)

_TEXT: tuple[Entry, ...] = (
    Entry(
        name="bert_base",
        title="BERT-base, uncased",
        task="encoder of text: states of all tokens and a pooled state",
        input="input_ids, attention_mask, token_type_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=109_482_240,
        source=_TRANSFORMERS.format("BertModel with its default configuration"),
        unknown=_NO_MACS,
    ),
    Entry(
        name="bert_large",
        title="BERT-large, uncased",
        task="encoder of text: states of all tokens and a pooled state",
        input="input_ids, attention_mask, token_type_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=335_141_888,
        source=_TRANSFORMERS.format("BertModel with 24 layers, 16 heads and 1024 features"),
        unknown=_NO_MACS,
    ),
    Entry(
        name="gpt2",
        title="GPT-2 small with its cache",
        task="scores of the next token at every place of a text",
        input=_PAST.format(11, 12),
        dims=_WITH_PAST,
        published_macs=None,
        published_parameters=124_439_808,
        source=_TRANSFORMERS.format("GPT2LMHeadModel with its default configuration"),
        unknown=_NO_MACS,
    ),
    Entry(
        name="tinyllama_1_1b",
        title="Llama in the size of TinyLlama-1.1B, with its cache",
        task="scores of the next token at every place of a text",
        input=_PAST.format(21, 4),
        dims=_WITH_PAST,
        published_macs=None,
        published_parameters=1_100_048_384,
        source="parameters as torch counts them in transformers' LlamaForCausalLM in the sizes of "
        "TinyLlama's paper (arXiv:2401.02385, 1.1 billion)",
        unknown=_NO_MACS,
    ),
)

_SENSORS: tuple[Entry, ...] = (
    Entry(
        name="gru",
        title="Two GRU layers",
        task="classification of sensor sequences, 10 classes",
        input="readings: float32[batch, sequence, 128]",
        dims=_READINGS,
        published_macs=None,
        published_parameters=None,
        source="our own: 128 readings a step, 256 hidden units",
        unknown=_OUR_OWN,
    ),
    Entry(
        name="lstm",
        title="Two bidirectional LSTM layers",
        task="classification of sensor sequences, 10 classes",
        input="readings: float32[batch, sequence, 128]",
        dims=_READINGS,
        published_macs=None,
        published_parameters=None,
        source="our own: 128 readings a step, 256 hidden units a direction",
        unknown=_OUR_OWN,
    ),
)

_DETECTION: tuple[Entry, ...] = (
    Entry(
        name="ssdlite320_mobilenet_v3_large",
        title="SSDlite320 on MobileNetV3 large",
        task="object detection, 91 classes, before non-maximum suppression",
        input="image: float32[batch, 3, 320, 320]",
        dims=(("batch", 1),),
        published_macs=0.583e9,
        published_parameters=3_440_060,
        source="torchvision's documentation of its detectors (its GFLOPS are multiply-adds), "
        "weights COCO_V1",
    ),
    Entry(
        name="unet",
        title="U-Net, padded, with batch normalisation",
        task="segmentation, 2 classes",
        input="image: float32[batch, 3, 256, 256]",
        dims=(("batch", 1),),
        published_macs=None,
        published_parameters=None,
        source="the paper's widths (arXiv:1505.04597) in today's usual form",
        unknown={**_NO_MACS, "published_parameters": "the paper states none"},
    ),
    Entry(
        name="yolov8n",
        title="Detector of the size of YOLOv8n",
        task="object detection, 80 classes, before non-maximum suppression",
        input="images: float32[batch, 3, 640, 640]",
        dims=(("batch", 1),),
        published_macs=4.35e9,
        published_parameters=3_157_200,
        source=_ULTRALYTICS.format("8.7"),
    ),
    Entry(
        name="yolov8s",
        title="Detector of the size of YOLOv8s",
        task="object detection, 80 classes, before non-maximum suppression",
        input="images: float32[batch, 3, 640, 640]",
        dims=(("batch", 1),),
        published_macs=14.3e9,
        published_parameters=11_166_560,
        source=_ULTRALYTICS.format("28.6"),
    ),
)

CATALOG: tuple[Entry, ...] = tuple(
    sorted((*_CLASSIFIERS, *_TEXT, *_SENSORS, *_DETECTION), key=lambda entry: entry.name)
)
"""Every network, in the order of their names."""


CONVOLUTION_FAMILY = "convolutions"
_CHANNELS = 64
_SIZES = ((224, 112), (112, 112), (112, 56), (56, 56), (56, 28))  # height and width
_KERNELS = range(1, 6)
_SOURCE = (
    "the prototxts of HaX-CoNN's artifact (conv1 to conv5 by size, kernel1 to kernel5); it "
    "publishes the use of the memory controller of each, and no counts"
)


_SHAPES = {
    f"conv{_CHANNELS}_{height}x{width}_k{kernel}": (height, width, kernel)
    for height, width in _SIZES
    for kernel in _KERNELS
}

CONVOLUTIONS: tuple[Entry, ...] = tuple(
    Entry(
        name=name,
        title=f"{_CHANNELS} filters of {kernel} × {kernel} over {height} × {width}",
        task="a single convolution with ReLU",
        input=f"image: float32[batch, {_CHANNELS}, {height}, {width}]",
        dims=(("batch", 1),),
        published_macs=None,
        published_parameters=None,
        source=_SOURCE,
        unknown=dict.fromkeys(
            ("published_macs", "published_parameters"), "its source publishes no counts"
        ),
    )
    for name, (height, width, kernel) in _SHAPES.items()
)
"""In the order of the artifact: the largest first, kernels within."""


OPERATORS: tuple[Entry, ...] = tuple(
    Entry(
        name=name,
        title=f"operators of many shapes, part {number} of {operators.N_NETWORKS}",
        task="timing operators by their shapes",
        input="one of each operator: float32[batch, …]",
        dims=(("batch", 1),),
        published_macs=None,
        published_parameters=None,
        source="Mansard's own",
        unknown=dict.fromkeys(("published_macs", "published_parameters"), "unpublished"),
    )
    for number, name in enumerate(operators.NAMES, 1)
)

FAMILIES = {CONVOLUTION_FAMILY: CONVOLUTIONS, operators.FAMILY: OPERATORS}


def draw_convolution(name: str) -> bytes:
    """The ONNX file of the convolution called ``name``; KeyError for any other name."""
    from onnx import TensorProto, helper, numpy_helper

    height, width, kernel = _SHAPES[name]
    weight = (_CHANNELS, _CHANNELS, kernel, kernel)
    # As in the other files a constant stands for the weights: one over the inputs of an output.
    fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [1 / (_CHANNELS * kernel**2)])
    nodes = [
        helper.make_node("ConstantOfShape", ["weight_shape"], ["weight"], value=fill),
        helper.make_node("ConstantOfShape", ["bias_shape"], ["bias"]),
        helper.make_node(
            "Conv",
            ["image", "weight", "bias"],
            ["conv"],
            name="conv",
            kernel_shape=[kernel, kernel],
            pads=[1] * 4,
        ),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
    ]
    import numpy as np

    stored = [
        numpy_helper.from_array(np.array(weight, dtype=np.int64), "weight_shape"),
        numpy_helper.from_array(np.array(weight[:1], dtype=np.int64), "bias_shape"),
    ]
    # What one pixel of padding on each side leaves of a side: side + 2 − kernel + 1.
    ends: dict[str, list[int | str | None]] = {
        "image": ["batch", _CHANNELS, height, width],
        "relu": ["batch", _CHANNELS, height + 3 - kernel, width + 3 - kernel],
    }
    declared = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end, shape in ends.items()
    ]
    return operators.model_file(helper.make_graph(nodes, name, declared[:1], declared[1:], stored))
