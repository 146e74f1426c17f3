"""PyTorch's own counter, made right where it is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mansard.core.records import Phase
from mansard.estimator.export.network import Network, example_tensors, flat_tensors

PHASES: tuple[Phase, ...] = ("inference", "training")


class Counts(msgspec.Struct, frozen=True):
    """FLOPs of the multiply-adds of one network, of convolutions and of matrix products."""

    convolution: int = 0
    product: int = 0


def is_traceable(network: Network) -> bool:
    """Whether ``forward`` never looks at a value; transformers looks at its masks."""
    return not type(network.module).__module__.startswith("transformers.")


def torch_counts(network: Network) -> dict[Phase, Counts]:
    """What PyTorch's counter says of one pass, and of a pass with its backward pass."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    device = "meta" if is_traceable(network) else "cpu"
    module = network.module.to(device)
    shapes = {one.name: one.shape for one in network.inputs}
    examples = {
        name: one.to(device) for name, one in example_tensors(network.inputs, shapes).items()
    }
    corrected = {torch.ops.aten.convolution_backward: convolution_backward_flop}
    counts: dict[Phase, Counts] = {}
    for phase in PHASES:
        mode = FlopCounterMode(display=False, custom_mapping=corrected)
        with sdpa_kernel(SDPBackend.MATH), mode:
            outputs = [one for one in flat_tensors(module(**examples)) if one.requires_grad]
            if phase == "training":
                sum(one.float().sum() for one in outputs).backward()
        module.zero_grad()
        counts[phase] = by_class(mode.get_flop_counts()["Global"])
    return counts


def convolution_backward_flop(
    gradient: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    _bias: object,
    _stride: object,
    _padding: object,
    _dilation: object,
    transposed: bool,
    _output_padding: object,
    _groups: int,
    wanted: Sequence[bool],
    out_shape: object = None,  # noqa: ARG001 - the counter gives it by name
) -> int:
    """Each gradient that is wanted, of data and of weights, costs a forward pass again."""
    from torch.utils.flop_counter import conv_flop_count

    forward = conv_flop_count(x, weight, gradient, transposed=transposed)
    return int(forward) * (wanted[0] + wanted[1])


def by_class(counted: Mapping[Any, int]) -> Counts:
    """The counter's operators as our two classes; raises ValueError for one of neither."""
    convolution = product = 0
    for operator, flop in counted.items():
        name = str(operator).removeprefix("aten.")
        if "convolution" in name:
            convolution += flop
        elif name in ("mm", "addmm", "bmm", "baddbmm"):
            product += flop
        elif flop:
            raise ValueError(f"the counter knows {operator}: a class is missing here")
    return Counts(convolution, product)
