"""What a file says of its versions and does not keep: notes for the reader of its score.

No runtime takes such a file; its work can be counted all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType

from mansard.estimator.model import ModelNode
from mansard.estimator.reading.arities import first_version

# The newest version of each domain that the schemas have, and the newest format of files (IR).
NEWEST = MappingProxyType({"": 28, "ai.onnx.ml": 5})
NEWEST_IR = 14
_OPSETS_SINCE = 3  # IR version
_SHOWN = 3  # nodes in a note

_REMOVED = MappingProxyType({"Scatter": 11, "Upsample": 10})
# ONNX Runtime has it in every opset, and its optimiser writes it.
_EARLY = "LayerNormalization"

# Every name of an attribute that an operator of the domain has in any version.
_NAMES = {
    "": """
activation activation_alpha activation_beta activations align_corners allowzero alpha antialias
approximate auto_pad axes axis batch_axis batch_dims beta bias block_size blocksize body
broadcast case_change_action ceil_mode center_point_box chunk_size clip consumed_inputs
coordinate_transformation_mode count_include_pad cubic_coeff_a delimiter detect_negative
detect_positive dilations direction directions dtype else_branch end ends epsilon equation
exclude_outside exclusive extrapolation_value fmod gamma group height_scale hidden_size high
ignore_index input_forget interleaved inverse is_case_sensitive is_causal is_test k
keep_aspect_ratio_policy keepdims kernel_shape kv_num_heads lambd largest layout
left_window_size linear_before_reset locale low max max_gram_length max_skip_count maxsplit mean
min min_gram_length mode momentum nearest_mode new_axis ngram_counts ngram_indexes
noop_with_empty_axes num_groups num_heads num_outputs num_scan_inputs offset_group onesided
output_datatype output_dtype output_height output_padding output_sequence output_shape
output_width p padding_mode paddings pads pattern periodic perm pixel_format pool_int64s
pool_strings pooled_shape precision q_num_heads qk_matmul_output_mode ratio reduction reverse
right_window_size rotary_embedding_dim round_mode sample_size sampling_ratio saturate scale
scales scan_input_axes scan_input_directions scan_output_axes scan_output_directions seed
select_last_index shape size softcap softmax_precision sorted sparse_value spatial spatial_scale
split start starts stash_type stopwords storage_order strides then_branch time_axis to
training_mode transA transB type update_rule upper value value_float value_floats value_int
value_ints value_string value_strings weights width_scale
""",
    "ai.onnx.ml": """
aggregate_function base_values base_values_as_tensor cast_to cats_int64s cats_strings class_ids
class_nodeids class_treeids class_weights class_weights_as_tensor classes_strings
classlabels_int64s classlabels_ints classlabels_strings coefficients default_float default_int64
default_string default_tensor imputed_value_floats imputed_value_int64s inputdimensions
int64_vocabulary intercepts kernel_params kernel_type keys_floats keys_int64s keys_strings
keys_tensor leaf_targetids leaf_weights map_form max_map membership_values multi_class
n_supports n_targets nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates
nodes_hitrates_as_tensor nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_splits
nodes_treeids nodes_trueleafs nodes_truenodeids nodes_values nodes_values_as_tensor norm offset
one_class post_transform prob_a prob_b replaced_value_float replaced_value_int64 rho scale
string_vocabulary support_vectors target_ids target_nodeids target_treeids target_weights
target_weights_as_tensor targets threshold tree_roots values_floats values_int64s values_strings
values_tensor vectors_per_class zeros
""",
}
ATTRIBUTES = MappingProxyType({name: frozenset(text.split()) for name, text in _NAMES.items()})


def version_notes(
    ir_version: int, imports: Sequence[tuple[str, int]], nodes: Sequence[ModelNode]
) -> Iterator[str]:
    """Notes on versions that are not known, not there or there twice, and on what they lack.

    ``imports``: the domains that the file names, each with its version. ``nodes``: all of them.
    """
    opsets = dict(imports)
    if ir_version > NEWEST_IR:
        yield (
            f"the file is of IR version {ir_version}, newer than {NEWEST_IR}, the newest known: "
            "what is new in it is not counted"
        )
    for domain, newest in NEWEST.items():
        called = domain or "ai.onnx"
        if opsets.get(domain, 1) > newest:
            yield (
                f"opset {opsets[domain]} of {called} is newer than {newest}, the newest known: "
                "operators that changed since are counted by their older definition"
            )
        others = sorted({version for name, version in imports if name == domain})
        if len(others) > 1:
            listed = " and ".join(map(str, others))
            yield f"the file names the opsets {listed} of {called}: {opsets[domain]} is counted"
        is_needed = ir_version >= _OPSETS_SINCE and any(node.domain == domain for node in nodes)
        if domain not in opsets and is_needed:
            yield (
                f"the file does not say which opset of {called} it was written for: its operators "
                "are counted by their first definition"
            )
    yield from _node_notes(node for node in nodes if node.domain in opsets)


def _node_notes(nodes: Iterable[ModelNode]) -> Iterator[str]:
    """Notes on operators that their opset does not have, and on attributes that nothing has."""
    odd: dict[str, list[str]] = {}
    for node in nodes:
        for reason in _odd(node):
            odd.setdefault(reason, []).append(node.label)
    for reason, labels in odd.items():
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        yield f"{', '.join(labels[:_SHOWN])}{more}: {reason}"


def _odd(node: ModelNode) -> Iterator[str]:
    first = first_version(node.domain, node.op_type)
    if first is None:
        return
    called, removed = node.domain or "ai.onnx", _REMOVED.get(node.op_type)
    if node.opset < first and node.op_type != _EARLY:
        yield f"{called} has this operator from opset {first} on, and the file is of {node.opset}"
    elif not node.domain and removed is not None and node.opset >= removed:
        yield f"{called} has no such operator from opset {removed} on; the older one is counted"
    known = ATTRIBUTES.get(node.domain)
    for name in sorted(node.attributes.keys() - known) if known is not None else ():
        yield f"no operator of {called} has an attribute {name!r}: it is not counted"
