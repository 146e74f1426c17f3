"""ONNX by version: how many inputs and outputs its operators have, and what a file violates.

The table of operators is made of the schemas of the onnx package, to which
``tests/estimator/test_arities.py`` compares it. ``Clip 1:1-1-1 11:1-3-1``: from version 1 on one
input and one output, from 11 on up to three inputs; ``*`` is any number.

Notes for the reader of a score say what a file states of its versions and does not keep. No
runtime takes such a file; its work can be counted all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from mansard.core.errors import ModelError
from mansard.core.text import first_of
from mansard.estimator.model import ModelNode
from mansard.estimator.tensors import Node

_TABLES = {
    "": """
Abs 1:1-1-1; Acos 7:1-1-1; Acosh 9:1-1-1; Add 1:2-2-1; AffineGrid 20:2-2-1; And 1:2-2-1; ArgMax
1:1-1-1; ArgMin 1:1-1-1; Asin 7:1-1-1; Asinh 9:1-1-1; Atan 7:1-1-1; Atanh 9:1-1-1; Attention
23:3-6-4 24:3-7-4; AveragePool 1:1-1-1; BatchNormalization 1:5-5-5 14:5-5-3; Bernoulli 15:1-1-1;
BitCast 26:1-1-1; BitShift 11:2-2-1; BitwiseAnd 18:2-2-1; BitwiseNot 18:1-1-1; BitwiseOr
18:2-2-1; BitwiseXor 18:2-2-1; BlackmanWindow 17:1-1-1; Cast 1:1-1-1; CastLike 15:2-2-1;
CausalConvWithState 27:2-4-2; Ceil 1:1-1-1; Celu 12:1-1-1; CenterCropPad 18:2-2-1; Clip 1:1-1-1
11:1-3-1; Col2Im 18:3-3-1; Compress 9:2-2-1; Concat 1:1-*-1; ConcatFromSequence 11:1-1-1;
Constant 1:0-0-1; ConstantOfShape 9:1-1-1; Conv 1:2-3-1; ConvInteger 10:2-4-1; ConvTranspose
1:2-3-1; Cos 7:1-1-1; Cosh 9:1-1-1; CumProd 26:2-2-1; CumSum 11:2-2-1; DFT 17:1-2-1 20:1-3-1;
DeformConv 19:3-5-1; DepthToSpace 1:1-1-1; DequantizeLinear 10:2-3-1; Det 11:1-1-1; Div 1:2-2-1;
Dropout 1:1-1-2 12:1-3-2; DynamicQuantizeLinear 11:1-1-3; Einsum 12:1-*-1; Elu 1:1-1-1; Equal
1:2-2-1; Erf 9:1-1-1; Exp 1:1-1-1; Expand 8:2-2-1; EyeLike 9:1-1-1; Flatten 1:1-1-1; Floor
1:1-1-1; GroupedMatMul 29:3-4-1; GRU 1:3-6-2; Gather 1:2-2-1; GatherElements 11:2-2-1; GatherND
11:2-2-1; Gelu 20:1-1-1; Gemm 1:3-3-1 11:2-3-1; GlobalAveragePool 1:1-1-1; GlobalLpPool 1:1-1-1;
GlobalMaxPool 1:1-1-1; Greater 1:2-2-1; GreaterOrEqual 12:2-2-1; GridSample 16:2-2-1;
GroupNormalization 18:3-3-1; HammingWindow 17:1-1-1; HannWindow 17:1-1-1; HardSigmoid 1:1-1-1;
HardSwish 14:1-1-1; Hardmax 1:1-1-1; Identity 1:1-1-1; If 1:1-1-*; ImageDecoder 20:1-1-1;
InstanceNormalization 1:3-3-1; IsInf 10:1-1-1; IsNaN 9:1-1-1; LRN 1:1-1-1; LSTM 1:3-8-3;
LayerNormalization 17:2-3-3; LeakyRelu 1:1-1-1; Less 1:2-2-1; LessOrEqual 12:2-2-1;
LinearAttention 27:3-6-2; Log 1:1-1-1; LogSoftmax 1:1-1-1; Loop 1:3-*-* 11:2-*-*;
LpNormalization 1:1-1-1; LpPool 1:1-1-1; MatMul 1:2-2-1; MatMulInteger 10:2-4-1; Max 1:1-*-1;
MaxPool 1:1-1-1 8:1-1-2; MaxRoiPool 1:2-2-1; MaxUnpool 9:2-3-1; Mean 1:1-*-1;
MeanVarianceNormalization 9:1-1-1; MelWeightMatrix 17:5-5-1; Min 1:1-*-1; Mish 18:1-1-1; Mod
10:2-2-1; Mul 1:2-2-1; Multinomial 7:1-1-1; Neg 1:1-1-1; NegativeLogLikelihoodLoss 12:2-3-1;
NonMaxSuppression 10:2-5-1; NonZero 9:1-1-1; Not 1:1-1-1; OneHot 9:3-3-1; Optional 15:0-1-1;
OptionalGetElement 15:1-1-1; OptionalHasElement 15:1-1-1 18:0-1-1; Or 1:2-2-1; PRelu 1:2-2-1;
Pad 1:1-1-1 11:2-3-1 18:2-4-1; Pow 1:2-2-1; QLinearConv 10:8-9-1; QLinearMatMul 10:8-8-1;
QuantizeLinear 10:2-3-1; RMSNormalization 23:2-2-1; RNN 1:3-6-2; RandomNormal 1:0-0-1;
RandomNormalLike 1:1-1-1; RandomUniform 1:0-0-1; RandomUniformLike 1:1-1-1; Range 11:3-3-1;
Reciprocal 1:1-1-1; ReduceL1 1:1-1-1 18:1-2-1; ReduceL2 1:1-1-1 18:1-2-1; ReduceLogSum 1:1-1-1
18:1-2-1; ReduceLogSumExp 1:1-1-1 18:1-2-1; ReduceMax 1:1-1-1 18:1-2-1; ReduceMean 1:1-1-1
18:1-2-1; ReduceMin 1:1-1-1 18:1-2-1; ReduceProd 1:1-1-1 18:1-2-1; ReduceSum 1:1-1-1 13:1-2-1;
ReduceSumSquare 1:1-1-1 18:1-2-1; RegexFullMatch 20:1-1-1; Relu 1:1-1-1; Reshape 1:1-1-1
5:2-2-1; Resize 10:2-2-1 11:3-4-1 13:1-4-1; ReverseSequence 10:2-2-1; RoiAlign 10:3-3-1;
RotaryEmbedding 23:3-4-1; Round 11:1-1-1; STFT 17:2-4-1; Scan 8:2-*-* 9:1-*-*; Scatter 9:3-3-1;
ScatterElements 11:3-3-1; ScatterND 11:3-3-1; Selu 1:1-1-1; SequenceAt 11:2-2-1;
SequenceConstruct 11:1-*-1; SequenceEmpty 11:0-0-1; SequenceErase 11:1-2-1; SequenceInsert
11:2-3-1; SequenceLength 11:1-1-1; SequenceMap 17:1-*-*; Shape 1:1-1-1; Shrink 9:1-1-1; Sigmoid
1:1-1-1; Sign 9:1-1-1; Sin 7:1-1-1; Sinh 9:1-1-1; Size 1:1-1-1; Slice 1:1-1-1 10:3-5-1; Softmax
1:1-1-1; SoftmaxCrossEntropyLoss 12:2-3-2; Softplus 1:1-1-1; Softsign 1:1-1-1; SpaceToDepth
1:1-1-1; Split 1:1-2-* 2:1-1-* 13:1-2-*; SplitToSequence 11:1-2-1; Sqrt 1:1-1-1; Squeeze 1:1-1-1
13:1-2-1; StringConcat 20:2-2-1; StringNormalizer 10:1-1-1; StringSplit 20:1-1-2; Sub 1:2-2-1;
Sum 1:1-*-1; SwiGLU 28:2-2-1; Swish 24:1-1-1; Tan 7:1-1-1; Tanh 1:1-1-1; TensorScatter 24:2-3-1;
TfIdfVectorizer 9:1-1-1; ThresholdedRelu 10:1-1-1; Tile 1:3-3-1 6:2-2-1; TopK 1:1-1-2 10:2-2-2;
Transpose 1:1-1-1; Trilu 14:1-2-1; Unique 11:1-1-4; Unsqueeze 1:1-1-1 13:2-2-1; Upsample 1:1-1-1
9:2-2-1; Where 9:3-3-1; Xor 1:2-2-1
""",
    "ai.onnx.ml": """
ArrayFeatureExtractor 1:2-2-1; Binarizer 1:1-1-1; CastMap 1:1-1-1; CategoryMapper 1:1-1-1;
DictVectorizer 1:1-1-1; FeatureVectorizer 1:1-*-1; Imputer 1:1-1-1; LabelEncoder 1:1-1-1;
LinearClassifier 1:1-1-2; LinearRegressor 1:1-1-1; Normalizer 1:1-1-1; OneHotEncoder 1:1-1-1;
SVMClassifier 1:1-1-2; SVMRegressor 1:1-1-1; Scaler 1:1-1-1; TreeEnsemble 5:1-1-1;
TreeEnsembleClassifier 1:1-1-2; TreeEnsembleRegressor 1:1-1-1; ZipMap 1:1-1-1
""",
    "ai.onnx.preview": """
FlexAttention 1:3-3-1
""",
    "ai.onnx.preview.training": """
Adagrad 1:3-*-*; Adam 1:3-*-*; Gradient 1:1-*-*; Momentum 1:3-*-*
""",
}


class Arity(NamedTuple):
    """From ``version`` on an operator has these numbers of inputs and outputs."""

    version: int
    least: int
    most: float
    most_outputs: float


@cache
def _arities() -> dict[tuple[str, str], list[Arity]]:
    arities: dict[tuple[str, str], list[Arity]] = {}
    for domain, table in _TABLES.items():
        for entry in table.replace("\n", " ").split(";"):
            name, *versions = entry.split()
            arities[domain, name] = [_arity(text) for text in versions]
    return arities


def _arity(text: str) -> Arity:
    version, _, numbers = text.partition(":")
    least, most, outputs = (float("inf") if n == "*" else int(n) for n in numbers.split("-"))
    return Arity(int(version), int(least), most, outputs)


def arity_of(domain: str, op_type: str, opset: int) -> Arity | None:
    """That of an operator at a version; None where it is not known."""
    held = None
    for arity in _arities().get((domain, op_type), ()):
        if arity.version <= opset:
            held = arity
    return held


def first_version(domain: str, op_type: str) -> int | None:
    """The opset that an operator came with; None where it is not known."""
    arities = _arities().get((domain, op_type))
    return arities[0].version if arities else None


def arity_error(
    node: Node | ModelNode, inputs: Sequence[object], outputs: Sequence[object]
) -> ModelError | None:
    """The error for a node with too few or too many inputs, or too many outputs."""
    arity = arity_of(node.domain, node.op_type, node.opset)
    if arity is None:
        return None
    n_inputs, n_outputs = len(inputs), len(outputs)
    while n_inputs > arity.most and not inputs[n_inputs - 1]:
        n_inputs -= 1  # one that is left out
    is_input = not arity.least <= n_inputs <= arity.most
    if not is_input and n_outputs <= arity.most_outputs:
        return None
    count, what = (n_inputs, "input") if is_input else (n_outputs, "output")
    bounds = {arity.least, arity.most} if is_input else {arity.most_outputs}
    return ModelError(
        f"has {count} {what}(s), {node.op_type} of opset {node.opset} has "
        f"{' to '.join(str(bound) for bound in sorted(bounds))}",
        where=node.label,
        fix="the file is broken, or says another opset than it was written for; export it again",
    )


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
        yield f"{first_of(labels, _SHOWN)}: {reason}"


def _odd(node: ModelNode) -> Iterator[str]:
    first = first_version(node.domain, node.op_type)
    if first is None:
        return
    called, removed = node.domain or "ai.onnx", _REMOVED.get(node.op_type)
    if node.opset < first and node.op_type != _EARLY:
        yield f"{called} has this operator from opset {first} on, and the file is of {node.opset}"
    elif not node.domain and removed is not None and node.opset >= removed:
        yield f"{called} has no such operator from opset {removed} on; the older one is counted"
    defined = ATTRIBUTES.get(node.domain)
    for name in sorted(node.attributes.keys() - defined) if defined is not None else ():
        yield f"no operator of {called} has an attribute {name!r}: it is not counted"
