"""Laws of fused groups that hold for any graph of quantisers, pools, products and sums."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.estimator import score, totals
from tests.estimator.fusing import fuse_model
from tests.estimator.models import model

STORED = "int8[4,4,1,1] w, float s, float t, int8 z"
MADE_OF_ONE = {
    "Relu": "Relu({0})",
    "Neg": "Neg({0})",
    "Identity": "Identity({0})",
    "MaxPool": "MaxPool<kernel_shape = [1, 1]>({0})",
    "AveragePool": "AveragePool<kernel_shape = [1, 1]>({0})",
    "by s": "QuantizeLinear({0}, s, z)",
    "by t": "QuantizeLinear({0}, t, z)",
}
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from([*MADE_OF_ONE, "Conv", "Add", "Concat"]), *[st.integers(0, 40)] * 2),
    min_size=3,
    max_size=16,
)


def draw(steps: list[Step]) -> str:
    """A graph in ONNX's text form; the numbers choose among the tensors that are there."""
    floats, lines = [("x", 4)], []  # names and channels
    for number, (kind, one, two) in enumerate(steps):
        name, (first, channels) = f"t{number}", floats[one % len(floats)]
        alike = [other for other, width in floats if width == channels]
        made = f"m{number}"
        if kind == "Conv" and channels == 4:
            lines.append(f"w{number} = DequantizeLinear(w, s, z) {made} = Conv({first}, w{number})")
        elif kind == "Add":
            lines.append(f"{made} = Add({first}, {alike[two % len(alike)]})")
        elif kind == "Concat":
            second, width = floats[two % len(floats)]
            lines.append(f"{made} = Concat<axis = 1>({first}, {second})")
            channels += width
        elif kind.startswith("by"):
            scale = kind[-1]
            lines.append(f"{name} = {MADE_OF_ONE[kind].format(first)}")
            lines.append(f"{made} = DequantizeLinear({name}, {scale}, z)")
        elif kind in MADE_OF_ONE:
            lines.append(f"{made} = {MADE_OF_ONE[kind].format(first)}")
        else:
            continue
        floats.append((made, channels))
    return " ".join([*lines, f"y = Neg({floats[-1][0]})"])


@settings(max_examples=60)
@given(STEPS)
def test_each_node_is_counted_once_and_no_group_moves_more_than_its_nodes(
    steps: list[Step],
) -> None:
    data = model(draw(steps), "float[1,4,6,6] x", STORED)
    fused = fuse_model(data)
    indexes = {index for group in fused.fusion.groups for index in group.indexes}
    assert indexes.isdisjoint(fused.fusion.idle)
    assert indexes.union(fused.fusion.idle) == {node.index for node in fused.nodes}
    scored = score(data, cache_bytes=500)
    counted = totals(scored)
    assert fused.total_bytes() == counted.fused_traffic_bytes
    assert counted.fused_traffic_bytes <= (counted.traffic_bytes or 0)
    assert (scored.fused_peak_bytes or 0) > 0
