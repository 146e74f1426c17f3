"""Convolutions and pooling by hand."""

from __future__ import annotations

import pytest

from mansard.core.errors import ModelError
from tests.estimator.models import layer


def test_convolution() -> None:
    # output [2, 8, 16, 16]: 4096 elements, each 3·3·3 = 27 multiply-adds
    row = layer("y = Conv<pads=[1,1,1,1]>(x, w)", "float[2,3,16,16] x, float[8,3,3,3] w")
    assert row.macs == 4096 * 27
    assert row.work_flop == 2 * 4096 * 27


def test_a_bias_adds_once_for_each_output_and_is_no_multiply_add() -> None:
    row = layer(
        "y = Conv<pads=[1,1,1,1]>(x, w, b)", "float[2,3,16,16] x, float[8,3,3,3] w, float[8] b"
    )
    assert row.macs == 4096 * 27
    assert row.work_flop == 2 * 4096 * 27 + 4096


def test_strides_dilations_and_groups() -> None:
    # (17 + 2·2 - 2·(3 - 1) - 1) / 2 + 1 = 9 rows and columns; 4 groups of 2 channels
    row = layer(
        "y = Conv<group=4, dilations=[2,2], strides=[2,2], pads=[2,2,2,2]>(x, w)",
        "float[1,8,17,17] x, float[12,2,3,3] w",
    )
    assert row.macs == 12 * 9 * 9 * (2 * 3 * 3)
    assert row.output_bytes == 4 * 12 * 81


def test_depthwise() -> None:
    row = layer("y = Conv<group=8>(x, w)", "float[1,8,10,10] x, float[8,1,3,3] w")
    assert row.macs == 8 * 8 * 8 * 9


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_rounds_up(mode: str) -> None:
    # ceil(7 / 2) = 4
    row = layer(f'y = Conv<auto_pad="{mode}", strides=[2]>(x, w)', "float[1,1,7] x, float[1,1,3] w")
    assert row.output_bytes == 4 * 4


def test_one_and_three_dimensions() -> None:
    # [1, 4, 8] -> 6 positions; [1, 2, 5, 5, 5] -> 27 positions
    assert layer("y = Conv(x, w)", "float[1,4,8] x, float[5,4,3] w").macs == 5 * 6 * 12
    assert layer("y = Conv(x, w)", "float[1,2,5,5,5] x, float[3,2,3,3,3] w").macs == 3 * 27 * 54


def test_transposed_convolution_counts_its_inputs() -> None:
    # output size (5 - 1)·2 + 2 = 10; each of 4·5·5 inputs goes into 6·2·2 products
    row = layer("y = ConvTranspose<strides=[2,2]>(x, w)", "float[1,4,5,5] x, float[4,6,2,2] w")
    assert row.macs == 4 * 25 * 24
    assert row.output_bytes == 4 * 6 * 10 * 10


def test_integer_convolution() -> None:
    row = layer("y = ConvInteger(x, w)", "uint8[1,3,8,8] x, int8[4,3,3,3] w")
    assert row.macs == 4 * 36 * 27
    assert row.output_bytes == 4 * 4 * 36  # int32


def test_channels_that_contradict() -> None:
    with pytest.raises(ModelError, match="3 input channels in 1 groups do not fit"):
        layer("y = Conv(x, w)", "float[1,3,8,8] x, float[4,5,3,3] w")


def test_a_kernel_larger_than_the_input() -> None:
    with pytest.raises(ModelError, match="does not fit into input"):
        layer("y = Conv(x, w)", "float[1,3,4,4] x, float[4,3,7,7] w")


def test_pooling() -> None:
    # output [1, 2, 4, 4] = 32 elements; windows of 9 and of 4
    maximum = layer(
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)", "float[1,2,8,8] x"
    )
    assert (maximum.macs, maximum.work_flop) == (0, 32 * 8)
    average = layer("y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x)", "float[1,2,8,8] x")
    assert average.work_flop == 32 * 4


def test_pooling_that_rounds_up_drops_windows_in_the_padding() -> None:
    # (5 + 0 - 2) / 2 + 1 = 2.5, up to 3; with pads (4 + 2 - 2) / 3 + 1 = 2.33, up to 3, but the
    # third window would start at 6 >= 4 + 1, so 2
    up = layer("y = MaxPool<kernel_shape=[2], strides=[2], ceil_mode=1>(x)", "float[1,1,5] x")
    assert up.output_bytes == 4 * 3
    drop = layer(
        "y = MaxPool<kernel_shape=[2], strides=[3], pads=[1,1], ceil_mode=1>(x)", "float[1,1,4] x"
    )
    assert drop.output_bytes == 4 * 2


def test_global_pooling() -> None:
    # 2·7·7 elements: 48 additions and a division for each of 2 channels
    assert layer("y = GlobalAveragePool(x)", "float[1,2,7,7] x").work_flop == 2 * 49
    assert layer("y = GlobalMaxPool(x)", "float[1,2,7,7] x").work_flop == 2 * 48
