"""What joins a convolution or matrix product, and what does not; bytes by hand."""

from __future__ import annotations

from tests.estimator.fusing import fuse_text

IMAGE = "float[1,8,4,4] x"  # 128 elements, 512 bytes
KERNEL = "float[8,8,3,3] w, float[8] b"  # 576 and 8 elements: 2304 and 32 bytes
PADDED = "pads = [1, 1, 1, 1]"


def test_a_convolution_takes_its_norm_and_activation_along() -> None:
    norm = "float[8] s, float[8] t, float[8] m, float[8] v"
    fused = fuse_text(
        f"c = Conv<{PADDED}>(x, w) n = BatchNormalization(c, s, t, m, v) y = Relu(n)",
        IMAGE,
        "float[8,8,3,3] w, " + norm,
    )
    assert fused.kernels() == ["Conv+BatchNormalization+Relu"]
    # 512 + 2304, and of the norm's four vectors one is left, as a bias: 32
    assert fused.moved() == [(2848, 512)]


def test_a_norm_behind_a_bias_leaves_nothing_of_its_own() -> None:
    norm = "float[8] s, float[8] t, float[8] m, float[8] v"
    fused = fuse_text(
        f"c = Conv<{PADDED}>(x, w, b) y = BatchNormalization(c, s, t, m, v)",
        IMAGE,
        f"{KERNEL}, {norm}",
    )
    assert fused.moved() == [(512 + 2304 + 32, 512)]


def test_a_norm_alone_reads_a_factor_and_a_summand() -> None:
    fused = fuse_text(
        "y = BatchNormalization(x, s, t, m, v)",
        IMAGE,
        "float[8] s, float[8] t, float[8] m, float[8] v",
    )
    assert fused.moved() == [(512 + 2 * 32, 512)]


def test_a_residual_joins_the_later_of_two_convolutions() -> None:
    fused = fuse_text(
        f"a = Conv<{PADDED}>(x, w, b) c = Conv<{PADDED}>(a, w, b) s = Add(a, c) y = Relu(s)",
        IMAGE,
        KERNEL,
    )
    assert fused.kernels() == ["Conv", "Conv+Add+Relu"]
    # the second reads a once, though it needs it twice
    assert fused.moved() == [(2848, 512), (2848, 512)]


def test_a_residual_of_two_products_reads_the_earlier_ones_result() -> None:
    fused = fuse_text(
        f"a = Conv<{PADDED}>(x, w, b) c = Conv(x, p) y = Add(a, c)",
        IMAGE,
        f"{KERNEL}, float[8,8,1,1] p",  # 64 elements: 256 bytes
    )
    assert fused.kernels() == ["Conv", "Conv+Add"]
    assert fused.moved() == [(2848, 512), (512 + 256 + 512, 512)]


def test_activations_spelled_out_join_their_convolution() -> None:
    spelled = {
        "SiLU": "g = Sigmoid(c) y = Mul(c, g)",
        "HardSwish": "g = HardSigmoid(c) y = Mul(c, g)",
        "Mish": "p = Softplus(c) g = Tanh(p) y = Mul(c, g)",
        "GELU": "d = Div(c, k) e = Erf(d) o = Add(e, k) m = Mul(c, o) y = Mul(m, k)",
        "GELU by tanh": (
            "p = Pow(c, k) q = Mul(p, k) r = Add(c, q) s = Mul(r, k) t = Tanh(s) "
            "o = Add(t, k) h = Mul(c, k) y = Mul(h, o)"
        ),
    }
    for name, body in spelled.items():
        fused = fuse_text(f"c = Conv<{PADDED}>(x, w, b) {body}", IMAGE, f"{KERNEL}, float k")
        assert len(fused.kernels()) == 1, name
        assert fused.moved() == [(2848, 512)], name


def test_an_activation_that_is_read_on_the_way_does_not_join() -> None:
    fused = fuse_text(
        f"c = Conv<{PADDED}>(x, w, b) g = Sigmoid(c) m = Mul(c, g) y = Concat<axis = 1>(m, g)",
        IMAGE,
        KERNEL,
    )
    # the gate is needed as it is: TensorRT's elementwise kernels write one tensor
    assert fused.kernels()[0] == "Conv"


def test_a_gate_from_pooled_channels_is_a_kernel_of_its_own() -> None:
    fused = fuse_text(
        f"c = Conv<{PADDED}>(x, w, b) d = Relu(c) p = GlobalAveragePool(d) "
        "q = Conv(p, f) r = HardSigmoid(q) y = Mul(d, r)",
        IMAGE,
        f"{KERNEL}, float[8,8,1,1] f",
    )
    assert fused.kernels() == ["Conv+Relu", "GlobalAveragePool", "Conv+HardSigmoid", "Mul"]
    # the gate: 8 elements, 32 bytes; 512 + 32 are read by the multiplication
    assert fused.moved()[1:] == [(512, 32), (32 + 256, 32), (544, 512)]


def test_what_the_network_returns_is_written_as_it_is() -> None:
    text = f"c = Conv<{PADDED}>(x, w, b) y = Relu(c)"
    assert fuse_text(text, IMAGE, KERNEL).kernels() == ["Conv+Relu"]
    two = f"c = Conv<{PADDED}>(x, w, b) y = Relu(c) z = Neg(c)"
    assert fuse_text(two, IMAGE, KERNEL).kernels() == ["Conv", "Relu", "Neg"]


def test_padding_joins_the_convolution_behind_it_but_no_pooling() -> None:
    pads = "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() z = Pad(x, p)"
    fused = fuse_text(f"{pads} y = Conv(z, w, b)", IMAGE, KERNEL)
    assert fused.kernels() == ["Pad+Conv"]
    assert fused.moved() == [(2848, 512)]
    fused = fuse_text(f"{pads} y = MaxPool<kernel_shape = [3, 3]>(z)", IMAGE)
    # padded to 6 × 6: 8 · 36 · 4 = 1152 bytes
    assert fused.moved() == [(512, 1152), (1152, 512)]


def test_a_matrix_product_reads_its_operands_transposed() -> None:
    fused = fuse_text(
        "t = Transpose<perm = [0, 2, 1]>(x) m = MatMul(x, t) y = Add(m, b)",
        "float[2,4,8] x",
        "float[4] b",
    )
    assert fused.kernels() == ["Transpose+MatMul+Add"]
    # x once: 2·4·8·4 = 256, b 16; written 2·4·4·4 = 128
    assert fused.moved() == [(272, 128)]


def test_projections_of_one_tensor_are_one_product() -> None:
    fused = fuse_text(
        "q = MatMul(x, a) r = MatMul(x, b) s = MatMul(x, c) t = Add(q, r) y = Add(t, s)",
        "float[4,8] x",
        "float[8,16] a, float[8,16] b, float[8,16] c",
    )
    # the sums join one product, which then reads more than x: it stays by itself
    assert fused.kernels() == ["MatMul+MatMul", "MatMul+Add+Add"]
    fused = fuse_text(
        "q = MatMul(x, a) k = MatMul(x, b) y = Softmax(q) z = Softmax(k)",
        "float[4,8] x",
        "float[8,16] a, float[8,4] b",
    )
    assert fused.kernels()[0] == "MatMul+MatMul"
    # x 128 once, a 512, b 128; written 256 and 64
    assert fused.moved()[0] == (768, 320)


def test_convolutions_of_other_geometry_or_activation_stay_apart() -> None:
    small = "float[8,8,1,1] p, float[8,8,1,1] q"
    stride = "a = Conv<strides = [2, 2]>(x, p) c = Conv(x, q)"
    tail = "y = MaxPool<kernel_shape = [2, 2]>(a) z = MaxPool<kernel_shape = [2, 2]>(c)"
    assert fuse_text(f"{stride} {tail}", IMAGE, small).kernels()[:2] == ["Conv", "Conv"]
    acts = "d = Conv(x, p) a = Relu(d) c = Conv(x, q)"
    assert fuse_text(f"{acts} {tail}", IMAGE, small).kernels()[:2] == ["Conv+Relu", "Conv"]
    same = "a = Conv(x, p) c = Conv(x, q)"
    assert fuse_text(f"{same} {tail}", IMAGE, small).kernels()[0] == "Conv+Conv"
