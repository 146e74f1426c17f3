"""A detector that filters its boxes class by class, as SSD networks of the ONNX model zoo do."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_VALUE = helper.make_tensor_value_info
N_BOXES, MOST_BOXES, MOST_SORTED = 50, 20, 30


def detector(n_classes: int) -> bytes:
    """One Conv for scores and one for boxes; then for each class, but the background:

    NonZero of the scores above a threshold, Gather of scores and boxes there, the best of them
    by TopK, NonMaxSuppression, Gather of what stays. All classes are joined, and the best 20 kept.
    """
    nodes: list[onnx.NodeProto] = []

    def add(op_type: str, *inputs: str, n_outputs: int = 1, **attributes: object) -> list[str]:
        first = f"{op_type}_{len(nodes)}"
        outputs = [f"{first}_{i}" if i else first for i in range(n_outputs)]
        node = helper.make_node(op_type, inputs, outputs, first)
        node.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
        nodes.append(node)
        return outputs

    def reshaped(tensor: str, shape: str) -> str:
        return add("Reshape", tensor, shape)[0]

    head = add("Conv", "image", "w_scores")[0]  # [1, 2 · classes, 5, 5]
    scores = add("Softmax", reshaped(head, "as_scores"), axis=1)[0]  # [1, classes, 50]
    boxes = reshaped(add("Conv", "image", "w_boxes")[0], "as_boxes")  # [1, 50, 4]
    flat_boxes = reshaped(boxes, "rows_of_4")
    kept_boxes, kept_scores = [], []
    for number in range(1, n_classes):
        index = numpy_helper.from_array(np.asarray(number))
        of_class = reshaped(
            add("Gather", scores, add("Constant", value=index)[0], axis=1)[0], "flat"
        )
        above = add("Greater", of_class, "threshold")[0]
        places = reshaped(add("Transpose", add("NonZero", above)[0])[0], "flat")
        found_scores = add("Gather", of_class, places)[0]
        found_boxes = add("Gather", flat_boxes, places)[0]
        # as many as there are, at most 30
        there = add("Shape", found_scores)[0]
        most = add("ReduceMin", add("Concat", there, "most_sorted", axis=0)[0])[0]
        best, order = add("TopK", found_scores, most, n_outputs=2)
        best_boxes = add("Gather", found_boxes, order)[0]
        chosen = add(
            "NonMaxSuppression",
            reshaped(best_boxes, "one_image"),
            reshaped(best, "one_class"),
            "most_boxes",
            "overlap",
        )[0]
        rows = reshaped(add("Gather", chosen, "last", axis=1)[0], "flat")
        kept_boxes.append(add("Gather", best_boxes, rows)[0])
        kept_scores.append(add("Gather", best, rows)[0])
    all_scores = add("Concat", *kept_scores, axis=0)[0]
    all_boxes = add("Concat", *kept_boxes, axis=0)[0]
    in_all = add("ReduceMin", add("Concat", add("Shape", all_scores)[0], "most_boxes", axis=0)[0])
    _, order = add("TopK", all_scores, in_all[0], n_outputs=2)
    add("Gather", all_boxes, order)
    nodes[-1].output[0] = "found"
    stored = [
        onnx.TensorProto(
            name="w_scores", data_type=TensorProto.FLOAT, dims=[2 * n_classes, 3, 4, 4]
        ),
        onnx.TensorProto(name="w_boxes", data_type=TensorProto.FLOAT, dims=[8, 3, 4, 4]),
        *(
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {
                "as_scores": [1, n_classes, N_BOXES],
                "as_boxes": [1, N_BOXES, 4],
                "rows_of_4": [-1, 4],
                "flat": [-1],
                "one_image": [1, -1, 4],
                "one_class": [1, 1, -1],
                "most_sorted": [MOST_SORTED],
                "most_boxes": [MOST_BOXES],
                "last": [2],
            }.items()
        ),
        numpy_helper.from_array(np.asarray(0.05, np.float32), "threshold"),
        numpy_helper.from_array(np.asarray([0.5], np.float32), "overlap"),
    ]
    graph = helper.make_graph(
        nodes,
        "ssd",
        [_VALUE("image", TensorProto.FLOAT, [1, 3, 8, 8])],
        [_VALUE("found", TensorProto.FLOAT, ["n", 4])],
        stored,
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    data: bytes = made.SerializeToString()
    return data
