"""Single convolutions: one layer each, to compare the traffic that a board reports with ours.

The 25 of HaX-CoNN (PPoPP 2024, arXiv:2308.05869), whose use of the memory controller its authors
measured: 64 channels in and out, five sizes, square kernels of 1 to 5, one pixel of padding
whatever the kernel, a bias and a ReLU. https://github.com/ismetdagli/HaX-CoNN,
``convolution_characterization_prototxts/conv<size>_kernel<kernel>.prototxt``.
They are drawn when they are read: no file ships.
"""

from __future__ import annotations

from mansard.estimator.zoo.catalogue import Entry

FAMILY = "convolutions"
_CHANNELS = 64
_SIZES = ((224, 112), (112, 112), (112, 56), (56, 56), (56, 28))  # height and width
_KERNELS = range(1, 6)
_IR_VERSION, _OPSET, _PRODUCER = 8, 17, "mansard"  # as the files that ship
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


def draw(name: str) -> bytes:
    """The ONNX file of the convolution called ``name``; KeyError for any other name."""
    from onnx import TensorProto, checker, helper, numpy_helper

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
    graph = helper.make_graph(nodes, name, declared[:1], declared[1:], stored)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name=_PRODUCER,
    )
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))
