"""Views, concatenation in place, quantisation: what moves and what only changes its name."""

from __future__ import annotations

from tests.estimator.fusing import fuse_model, fuse_text
from tests.estimator.loops import captured_loop

IMAGE = "float[1,8,4,4] x"  # 512 bytes
KERNEL = "float[8,8,1,1] w"  # 256 bytes
POOL = "MaxPool<kernel_shape = [1, 1]>"


def test_views_move_nothing_and_belong_to_the_group_that_they_show() -> None:
    fused = fuse_text(
        "c = Conv(x, w) n = Constant<value_ints = [8, 16]>() r = Reshape(c, n) y = Relu(r)",
        IMAGE,
        KERNEL,
    )
    assert fused.kernels() == ["Conv+Relu"]
    by_name = {node.name or node.output_names[0]: node.index for node in fused.nodes}
    assert fused.fusion.idle[by_name["r"]] == by_name["c"]


def test_a_concatenation_is_written_by_those_that_make_its_inputs() -> None:
    fused = fuse_text(f"a = Conv(x, w) b = {POOL}(x) y = Concat<axis = 1>(a, b)", IMAGE, KERNEL)
    assert fused.kernels() == ["Conv", "MaxPool"]
    assert fused.moved() == [(768, 512), (512, 512)]


def test_inputs_of_a_concatenation_that_are_read_elsewhere_are_copied() -> None:
    fused = fuse_text(f"a = Conv(x, w) b = {POOL}(a) y = Concat<axis = 1>(a, b)", IMAGE, KERNEL)
    # as TensorRT's log has it: b is retargeted, a is copied
    assert fused.kernels() == ["Conv", "MaxPool", "Concat"]
    assert fused.moved() == [(768, 512), (512, 512), (512, 512)]


def test_what_the_network_is_given_is_copied_into_a_concatenation() -> None:
    fused = fuse_text("a = Conv(x, w) y = Concat<axis = 1>(a, x, x)", IMAGE, KERNEL)
    # x is read once and written twice
    assert fused.moved() == [(768, 512), (512, 1024)]


def test_a_reader_of_a_concatenation_reads_all_of_it() -> None:
    fused = fuse_text(
        f"a = Conv(x, w) b = {POOL}(x) c = Concat<axis = 1>(a, b) y = Conv(c, u)",
        IMAGE,
        f"{KERNEL}, float[8,16,1,1] u",
    )
    assert fused.moved()[-1] == (1024 + 512, 512)


def test_parts_of_a_tensor_are_read_where_they_stand() -> None:
    fused = fuse_text(
        f"c = Conv(x, w) a, b = Split<axis = 1, num_outputs = 2>(c) d = {POOL}(a) "
        f"e = {POOL}(b) y = Add(d, e)",
        IMAGE,
        KERNEL,
        opset=18,
    )
    assert fused.kernels() == ["Conv", "MaxPool", "MaxPool", "Add"]
    assert fused.moved() == [(768, 512), (256, 256), (256, 256), (512, 256)]


def test_a_slice_with_steps_is_a_copy() -> None:
    take = "s = Constant<value_ints = [0]>() e = Constant<value_ints = [8]>() " + (
        "i = Constant<value_ints = [1]>() t = Constant<value_ints = [2]>() "
    )
    strided = fuse_text(f"{take} r = Slice(x, s, e, i, t) y = {POOL}(r)", IMAGE)
    assert strided.moved() == [(256, 256), (256, 256)]
    plain = fuse_text(f"{take} r = Slice(x, s, e, i) y = {POOL}(r)", IMAGE)
    assert plain.kernels() == ["MaxPool"]


def test_a_part_that_is_returned_is_copied_out() -> None:
    fused = fuse_text(
        "c = Conv(x, w) y, z = Split<axis = 1, num_outputs = 2>(c) r = Relu(z)",
        IMAGE,
        KERNEL,
        opset=18,
    )
    assert fused.kernels()[0] == "Conv"
    assert "Split" in fused.kernels()


def test_a_permutation_that_moves_only_axes_of_one_element_is_a_view() -> None:
    one = fuse_text(f"t = Transpose<perm = [1, 0, 2, 3]>(x) y = {POOL}(t)", IMAGE)
    assert one.kernels() == ["MaxPool"]
    two = fuse_text(f"t = Transpose<perm = [0, 2, 1, 3]>(x) y = {POOL}(t)", IMAGE)
    assert two.kernels() == ["Transpose", "MaxPool"]


def test_a_scatter_into_what_nothing_else_reads_is_done_in_place() -> None:
    scatter = "y = ScatterND(c, i, u)"
    given = f"{IMAGE}, int64[2,1] i, float[2,8,4,4] u"
    own = fuse_text(f"c = {POOL}(x) {scatter}", given)
    # two indices of 8 bytes and 2 · 512 of updates; these are all that is written, 512 at most
    assert own.moved() == [(512, 512), (16 + 1024, 512)]
    small = "c = Neg(x) y = ScatterND(c, i, u)"
    fused = fuse_text(small, "float[4,8] x, int64[1,1] i, float[1,8] u")
    assert fused.moved() == [(128, 128), (8 + 32, 32)]
    shared = fuse_text(small + " z = Abs(c)", "float[4,8] x, int64[1,1] i, float[1,8] u")
    assert (128 + 8 + 32, 128) in shared.moved()


def test_a_table_is_read_where_it_is_picked_from() -> None:
    fused = fuse_text("e = Gather(t, x) y = Mul(e, e)", "int64[5] x", "float[1000,16] t")
    # 5 indices of 8 bytes, 5 rows of 64
    assert fused.kernels() == ["Gather+Mul"]
    assert fused.moved() == [(40 + 320, 320)]


QUANTIZED = (
    "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, s, z) "
    "c = Conv(d, v, b) r = Relu(c) o = QuantizeLinear(r, t, z) y = DequantizeLinear(o, t, z)"
)
SCALES = "int8[8,8,3,3] w, float[8] b, float s, float t, int8 z"


def test_quantised_products_read_and_write_integers() -> None:
    fused = fuse_text(QUANTIZED + " n = MaxPool<kernel_shape = [1, 1]>(y)", IMAGE, SCALES)
    assert fused.kernels()[:2] == ["QuantizeLinear", "Conv+Relu+QuantizeLinear"]
    # 128 elements become bytes; 576 weights, with their scale and zero point 5; 8 biases of 4
    # bytes; 8 · 2 · 2 elements are left without padding
    assert fused.moved()[:2] == [(512, 128), (128 + 576 + 5 + 32, 32)]


def test_moves_of_dequantised_tensors_stay_integers() -> None:
    fused = fuse_text(
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
        "m = MaxPool<kernel_shape = [2, 2]>(d) "
        "o = QuantizeLinear(m, s, z) e = DequantizeLinear(o, s, z) y = Neg(e)",
        IMAGE,
        "float s, int8 z",
    )
    # 4 × 4 → 3 × 3: 72 elements; the second quantiser has nothing to do
    assert fused.kernels() == ["QuantizeLinear", "MaxPool", "Neg"]
    assert fused.moved() == [(512, 128), (128, 72), (72, 288)]


def test_two_quantisers_by_one_scale_are_one() -> None:
    fused = fuse_text(
        f"c = {POOL}(x) p = QuantizeLinear(c, s, z) a = DequantizeLinear(p, s, z) "
        "q = QuantizeLinear(c, s, z) b = DequantizeLinear(q, s, z) y = Add(a, b)",
        IMAGE,
        "float s, int8 z",
    )
    # and it runs in front of the pool
    assert fused.kernels() == ["QuantizeLinear", "MaxPool", "Add"]
    assert fused.moved() == [(512, 128), (128, 128), (128, 512)]


def test_an_unknown_operator_and_what_it_touches_have_no_bytes() -> None:
    import onnx
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Strange", ["a"], ["b"], domain="nowhere"),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, None)]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    proto = helper.make_model(graph, opset_imports=imports)
    assert isinstance(proto, onnx.ModelProto)
    fused = fuse_model(proto.SerializeToString())
    known = {group.head: group.is_known for group in fused.fusion.groups}
    assert list(known.values()) == [True, False, False]


def test_a_graph_inside_a_node_joins_no_group_around_it() -> None:
    fused = captured_loop()
    # both are pointwise, but one runs before the loop and the other in it
    assert fused.kernels() == ["Neg"]
    (loop,) = (group for group in fused.fusion.groups if group.bodies)
    (inner,) = loop.bodies[0].passes
    assert inner.times == 4
    (added,) = (group for group in inner.fusion.groups if group.reads)
    # 400 bytes of the state and 400 of what was negated once
    assert (added.read_bytes, added.write_bytes) == (800, 400)
