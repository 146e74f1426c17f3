"""What is predicted: the fused groups of each score, and a row for each score.

A runtime starts one kernel for a group of nodes and moves only what enters or leaves the group
(docs/understand/traffic.md). Fusion is modelled for inference alone. Where a score has no fused
traffic each of its layers is a group of its own and moves its algorithmic traffic; ``note`` of the
score then says so.

Kernels of one class of operators come about equally near to a roof. A calibration has a factor for
each class (docs/understand/calibration.md), so there are few of them: with more, each would rest on
too few measurements. Classes follow what limits a kernel and the code it comes from (a library of
convolutions, one of matrix products, a loop over elements), not the operator's mathematics: Softmax
is with the normalizations, because both read a row twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import polars as pl

from mansard.analytics.data.frames import BOUND, FrameSchema
from mansard.analytics.data.model_frames import GROUP_SCHEMA
from mansard.analytics.data.names import network_key, place_in_order
from mansard.analytics.models.predict.kernels import ELEMENT_BYTES, KERNEL_COLUMNS, kernel_columns

OpClass = Literal[
    "conv",  # convolutions that are matrix products inside
    "depthwise",  # convolutions of one input channel for each output channel
    "matmul",
    "attention",
    "recurrent",
    "normalization",  # and softmax
    "reduction",  # and losses
    "elementwise",  # and optimizers
    "pooling",  # and all that reads a window or places between elements
    "movement",  # copies, picks, sorts and places
    "quantization",
    "control",  # branches, loops and whole networks in one node
    "other",  # rare or unknown: transforms, text, trees, random numbers
]

_MEMBERS: dict[OpClass, str] = {
    "conv": (
        "Conv ConvInteger QLinearConv ConvTranspose QLinearConvTranspose DeformConv FusedConv"
        " NhwcConv NhwcFusedConv ConvTransposeWithDynamicPads ModulatedDeformConv2d"
        " WordConvEmbedding"
    ),
    "depthwise": "CausalConvWithState VarlenCausalConvWithState",
    "matmul": (
        "MatMul MatMulInteger QLinearMatMul Gemm Einsum FusedMatMul FusedMatMulActivation"
        " FusedGemm GemmFloat8 GemmFastGelu MatMulInteger16 MatMulIntegerToFloat"
        " DynamicQuantizeMatMul QGemm QOrderedMatMul SparseToDenseMatMul TransposeMatMul"
        " MatMulNBits MatMulBnb4 MatMulFpQ4 MatMulBlockQuantizedFp4Weight"
        " MatMulBlockQuantizedFp8Weight MatMulNBitsMlp MatMulNBitsQkv GroupedMatMul MoE QMoE CDist"
        " MatMulStored ExpertsStored"
    ),
    "attention": (
        "Attention FlexAttention LinearAttention PackedAttention LongformerAttention"
        " DecoderAttention QAttention QOrderedAttention QOrderedLongformerAttention"
        " MultiHeadAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention"
        " GroupQueryAttention SparseAttention PackedMultiHeadAttention DynamicSparseAttention"
        " PagedAttention SparsePagedAttention SparseAttentionIndexer"
        " PackedSparseAttentionIndexer GatedDeltaNet DisentangledAttention_TRT"
        " MultiscaleDeformableAttnPlugin_TRT LatentAttention"
    ),
    "recurrent": "LSTM GRU RNN GRUUnit DynamicQuantizeLSTM AttnLSTM",
    "normalization": (
        "LayerNormalization InstanceNormalization GroupNormalization"
        " RMSNormalization MeanVarianceNormalization LpNormalization LRN Softmax LogSoftmax"
        " Hardmax SkipLayerNormalization SkipSimplifiedLayerNormalization"
        " SimplifiedLayerNormalization QOrderedLayerNormalization GroupNorm SkipGroupNorm"
        " BranchwiseRMSNorm GatedRMSNorm EngramGate HyperConnectionPreMix"
        " HyperConnectionPostMix EmbedLayerNormalization QEmbedLayerNormalization BiasSoftmax"
        " QLinearSoftmax Normalizer InstanceNormalization_TRT CustomSkipLayerNormPluginDynamic"
    ),
    "reduction": (
        "ReduceMax ReduceMin ReduceProd ReduceSum ArgMax ArgMin ReduceMean ReduceL1"
        " ReduceSumSquare ReduceL2 ReduceLogSum ReduceLogSumExp CumProd CumSum"
        " QLinearReduceMean ReduceSumInteger NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
        " IsAllFinite"
    ),
    "elementwise": (
        "BatchNormalization"
        " Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr"
        " BitwiseXor Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater"
        " GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max"
        " Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid"
        " Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu"
        " Where Xor Affine ImageScaler Scale ParametricSoftplus ScaledTanh QuickGelu ScaledSiLU"
        " BiasGelu FastGelu BiasAdd BiasSplitGelu BiasDropout BitmaskBiasDropout BitmaskDropout"
        " Dropout GatedAdd ComplexMul ComplexMulConj MulInteger QLinearAdd QLinearMul"
        " QLinearWhere QLinearLeakyRelu QLinearSigmoid QOrderedGelu LinearAttentionGate"
        " RotaryEmbedding GemmaRotaryEmbedding MRotaryEmbedding RelativePositionBias"
        " GatedRelativePositionBias Adagrad Momentum Adam Scaler Binarizer Imputer Clip_TRT"
        " CustomGeluPluginDynamic LReLU_TRT"
    ),
    "pooling": (
        "MaxPool AveragePool LpPool GlobalMaxPool GlobalAveragePool GlobalLpPool MaxRoiPool"
        " RoiAlign MaxUnpool NhwcMaxPool MaxpoolWithMask QLinearAveragePool"
        " QLinearGlobalAveragePool Resize Upsample GridSample AffineGrid CropAndResize"
        " MultilevelCropAndResize_TRT PyramidROIAlign_TRT ROIAlign_TRT ResizeNearest_TRT"
    ),
    "movement": (
        "Cast CastLike BitCast CenterCropPad Col2Im Compress Concat Constant ConstantOfShape"
        " Crop DepthToSpace DynamicSlice Expand ExpandDims EyeLike Flatten Gather GatherElements"
        " GatherND GivenTensorFill Identity MemcpyFromHost MemcpyToHost NonMaxSuppression"
        " NonZero OneHot Pad QLinearConcat Range ReorderInput ReorderOutput Reshape"
        " ReverseSequence Scatter ScatterElements ScatterND Shape Size Slice SpaceToDepth Split"
        " Squeeze TensorScatter Tile TopK TorchEmbedding Transpose Trilu UnfoldTensor Unique"
        " Unsqueeze RemovePadding RestorePadding ArrayFeatureExtractor CategoryMapper"
        " LabelEncoder OneHotEncoder BatchedNMSDynamic_TRT BatchedNMS_TRT EfficientNMS_TRT"
        " GridAnchorRect_TRT GridAnchor_TRT NGramRepeatBlock"
    ),
    "quantization": (
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QuantizeWithOrder"
        " DequantizeWithOrder QuantizeBFP DequantizeBFP GatherBlockQuantized GatherStored"
        " TRT_FP8QuantizeLinear TRT_FP8DequantizeLinear TRT_FP4DynamicQuantize"
        " TRT_MXFP8DequantizeLinear TRT_MXFP8DynamicQuantize"
    ),
    "control": (
        "If Loop Scan SequenceMap ConcatFromSequence SplitToSequence SequenceAt"
        " SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Optional"
        " OptionalGetElement OptionalHasElement Gradient BeamSearch GreedySearch Sampling"
        " WhisperBeamSearch EPContext Snpe ATen"
    ),
    "other": (
        "DFT STFT Rfft Irfft BlackmanWindow HammingWindow HannWindow MelWeightMatrix Det Inverse"
        " RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial"
        " StringConcat StringNormalizer StringSplit RegexFullMatch ImageDecoder TfIdfVectorizer"
        " Tokenizer MurmurHash3 NGramHashMapping VarlenNGramHashMapping BifurcationDetector"
        " DynamicTimeWarping SampleOp CastMap DictVectorizer FeatureVectorizer ZipMap"
        " LinearRegressor LinearClassifier SVMRegressor SVMClassifier TreeEnsemble"
        " TreeEnsembleClassifier TreeEnsembleRegressor"
    ),
}
# By the operator's name alone: no two domains use one name for work of different kinds.
CLASS_OF = MappingProxyType({op: name for name, ops in _MEMBERS.items() for op in ops.split()})
# Precisions that tensor cores multiply (estimator.work_precision): there a convolution whose
# multiply-adds are on CUDA cores is a depthwise one.
TENSOR_PRECISIONS = ("tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4")


def op_class(op_type: str) -> OpClass:
    """The class of an operator by its ONNX name; "other" where the name is not known."""
    return CLASS_OF.get(op_type, "other")


def layer_class(
    op_type: str, precision: str, unit: str, sum_length: float | None, input_share: float | None
) -> OpClass:
    """The class of a layer of a score: as ``op_class``, with depthwise convolutions apart.

    A LayerScore does not hold the groups of a convolution, so the class is inferred. In a
    precision of tensor cores a convolution is depthwise if its ``unit`` is the CUDA cores.
    Otherwise it is depthwise if ``sum_length``, the multiply-adds of one output, is k² for odd k
    from 3 to 11 and it reads at least 0.9 times the bytes that it writes (``input_share``). A
    dense convolution has such sums with one input channel, where it writes more than it reads, or
    with a few rare numbers of channels, such as 9; those are taken for depthwise.
    """
    known_class = op_class(op_type)
    if known_class != "conv":
        return known_class
    if precision in TENSOR_PRECISIONS:
        return "depthwise" if unit == "CUDA core" else "conv"
    is_short = sum_length in _SUMS_OF_ONE_CHANNEL
    is_wide = input_share is not None and input_share >= _LEAST_INPUT
    return "depthwise" if is_short and is_wide else "conv"


_SUMS_OF_ONE_CHANNEL = frozenset(float(k * k) for k in (3, 5, 7, 9, 11))
_LEAST_INPUT = 0.9


TENSOR, CUDA = "tensor core", "CUDA core"
# CUDA cores have no arithmetic in these formats: what is kept in them is computed in fp32.
COMPUTED_IN = {"tf32": "fp32", "fp8": "fp32", "fp4": "fp32"}
_NODE = ("op_type", "layer_precision", "unit", "sum_length", "input_share")
# What unpacks stored weights has no peak of its own: it counts at that of fp32. CUDA cores do
# about as many operations of integers, and llama.cpp's kernels mix both.
_UNPACKS = pl.col("op_type").is_in(["MatMulStored", "ExpertsStored", "LatentAttention"])
_IS_INTEGER = pl.col("layer_precision").str.contains("^(u?int|bool)") & ~_UNPACKS


def group_frame(layers: pl.DataFrame, *, with_kernels: bool = False) -> pl.DataFrame:
    """The groups of every score of ``layers`` (data.frames.LAYER_SCHEMA), as GROUP_SCHEMA.

    Multiply-adds of a layer whose unit is the tensor core are ``tensor_flop``, all other work is
    ``cuda_flop`` (on a CPU too), each in the precision of the layer that has most of it. Integer
    work without multiply-adds (positions, masks, a requantised result) is in neither: no integer
    peak is measured, and its traffic says how long it takes. What unpacks the weights of language
    models is ``cuda_flop`` in fp32. FLOP, bytes. ``with_kernels``: with
    the columns of ``predict.kernels``, which calibrations need; else these are null.
    """
    kernels = kernel_columns() if with_kernels else dict.fromkeys(KERNEL_COLUMNS, pl.lit(None))
    with_classes = layers.lazy().with_columns(
        is_fused=is_fused(),
        is_tensor=pl.col("unit") == TENSOR,
        precision_of_cuda=pl.when(_UNPACKS)
        .then(pl.lit("fp32"))
        .otherwise(pl.col("layer_precision").replace(COMPUTED_IN)),
    )
    grouped = (
        with_classes.with_columns(
            group=pl.when("is_fused").then("fused_group").otherwise("index"),
            moved=pl.when("is_fused").then("fused_traffic_bytes").otherwise("traffic_bytes"),
            tensor=pl.when("is_tensor").then("multiply_add_flop").otherwise(0),
            cuda=_cuda_flop(),
        )
        .with_columns(functions=pl.min_horizontal(pl.col("function_flop").fill_null(0), "cuda"))
        .with_columns(n_starts=_n_starts())
        .with_columns(**_SUMS)
        .join(_classes(layers), on=_NODE, how="left", nulls_equal=True)
        .with_columns(**kernels)
        .group_by("score_id", "group")
        .agg(
            _of_head("layer").alias("name"),
            _of_head("op_class"),
            _main_precision("layer_precision", "tensor").alias("tensor_precision"),
            _sum_of_known("tensor").alias("tensor_flop"),
            _main_precision("precision_of_cuda", "cuda").alias("cuda_precision"),
            _sum_of_known("cuda").alias("cuda_flop"),
            pl.col("functions").sum().alias("function_flop"),
            _sum_of_known("moved").alias("traffic_bytes"),
            pl.col("n_starts").max().alias("n_launches"),
            *(_of_most_macs(name) for name in KERNEL_COLUMNS),
            _reason().alias("reason"),
        )
        .sort("score_id", "group")
    )
    return grouped.select(pl.col(name).cast(kind) for name, kind in GROUP_SCHEMA.items()).collect()


def is_fused() -> pl.Expr:
    """Whether the fused traffic of the layer's whole score is known."""
    known = pl.col("fused_group").is_not_null() & pl.col("fused_traffic_bytes").is_not_null()
    return known.all().over("score_id")


def _cuda_flop() -> pl.Expr:
    untimed = _IS_INTEGER & (pl.col("is_tensor") | (pl.col("macs") == 0))
    beside = pl.col("work_flop") - pl.col("multiply_add_flop")
    return (
        pl.when(untimed & pl.col("work_flop").is_not_null())
        .then(0)
        .when("is_tensor")
        .then(beside)
        .otherwise("work_flop")
    )


def _n_starts() -> pl.Expr:
    """Kernels that a layer starts in one pass, were it alone: docs/understand/prediction.md.

    In training the forward one, one for each gradient of a product (its backward pass has as
    many multiply-adds again for each) or one for any other, and the optimizer's.
    """
    is_busy = ~((pl.col("work_flop") == 0) & (pl.col("moved") == 0)).fill_null(value=False)
    backward, update = pl.col("backward_flop").fill_null(0), pl.col("update_flop").fill_null(0)
    forward = pl.col("work_flop") - backward - update
    n_gradients = (
        pl.when(backward == 0)
        .then(0)
        .when((pl.col("macs") > 0) & (forward > 0))
        .then((backward / forward).round().clip(1))
        .otherwise(1)
    )
    n_kernels = 1 + n_gradients + pl.when(update > 0).then(1).otherwise(0)
    return pl.when(is_busy).then(pl.col("runs") * n_kernels).otherwise(0)


# Of layers with multiply-adds: how many of them an output has, and how much is read for it.
_N_OUTPUTS = pl.col("output_bytes") / pl.col("layer_precision").replace_strict(
    ELEMENT_BYTES, default=None, return_dtype=pl.Float64
)
_HAS_SUMS = (pl.col("macs") > 0) & (pl.col("output_bytes") > 0)
_SUMS = {
    "sum_length": pl.when(_HAS_SUMS).then(pl.col("macs") / _N_OUTPUTS),
    "input_share": pl.when(_HAS_SUMS).then(pl.col("input_bytes") / pl.col("output_bytes")),
}


def _classes(layers: pl.DataFrame) -> pl.LazyFrame:
    kinds = layers.with_columns(**_SUMS).select(_NODE).unique()
    class_names = [layer_class(*row) for row in kinds.iter_rows()]
    return kinds.with_columns(pl.Series("op_class", class_names, pl.String)).lazy()


def halves(groups: pl.DataFrame) -> pl.DataFrame:
    """``groups`` (GROUP_SCHEMA) with the work and the traffic of each as rows of their own.

    The times of work and traffic then add, each with its own factor; the time of a whole group is
    the longer of the two. The launches of a group are in the row of its work, or of its traffic if
    it has no work.
    """
    has_work = (pl.col("tensor_flop") + pl.col("cuda_flop") > 0).fill_null(value=True)
    work = groups.with_columns(
        op_class=_half_class(WORK),
        traffic_bytes=pl.lit(0.0),
        n_launches=pl.when(has_work).then("n_launches").otherwise(0),
    )
    traffic = groups.with_columns(
        op_class=_half_class(TRAFFIC),
        tensor_flop=pl.lit(0.0),
        cuda_flop=pl.lit(0.0),
        n_launches=pl.when(has_work).then(0).otherwise("n_launches"),
    )
    return pl.concat([work, traffic]).sort("score_id", "group", maintain_order=True)


def terms(groups: pl.DataFrame) -> pl.DataFrame:
    """As ``halves``, by kinds of kernels, and with more rows for each.

    The traffic of a product with weights is three rows: operands, results and weights. Exponentials
    and other functions are rows of a class for all groups: a library computes them in another loop
    than sums and products, often in a pass of its own, at a rate that depends on nothing else of
    the group.
    """
    functions = pl.col("function_flop").fill_null(0.0)
    rest = groups.with_columns(cuda_flop=pl.col("cuda_flop") - functions)
    apart = groups.filter(functions > 0).with_columns(
        op_class=pl.lit(f"function {WORK}"),
        tensor_flop=pl.lit(0.0),
        cuda_flop="function_flop",
        traffic_bytes=pl.lit(0.0),
        n_launches=pl.lit(0, GROUP_SCHEMA["n_launches"]),
    )
    both = halves(rest.with_columns(op_class=pl.coalesce("kernel", "op_class")))
    is_whole = pl.col("operand_bytes").is_null() | pl.col("op_class").str.ends_with(f" {WORK}")
    moved = both.filter(~is_whole)
    parts = [
        moved.with_columns(
            op_class=pl.format("{} {}", "kernel", pl.lit(what)),
            traffic_bytes=f"{name}_bytes",
            n_launches="n_launches" if name == "operand" else pl.lit(0, pl.Int64),
        )
        for name, what in (("operand", "operands"), ("result", "results"), ("weight", "weights"))
    ]
    return pl.concat([both.filter(is_whole), *parts, apart]).sort(
        "score_id", "group", maintain_order=True
    )


WORK, TRAFFIC = "work", "traffic"


def _half_class(half: str) -> pl.Expr:
    return pl.format("{} {}", pl.col("op_class"), pl.lit(half))


def _of_head(name: str) -> pl.Expr:
    return pl.col(name).filter(pl.col("index") == pl.col("group")).first()


def _of_most_macs(name: str) -> pl.Expr:
    return pl.col(name).filter(pl.col("macs") == pl.col("macs").max()).first()


def _main_precision(precision: str, flop: str) -> pl.Expr:
    most = pl.col(precision).gather(pl.col(flop).arg_max()).first()
    return pl.when(pl.col(flop).max() > 0).then(most)


def _sum_of_known(name: str) -> pl.Expr:
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())


def _reason() -> pl.Expr:
    return pl.coalesce(
        pl.format("the {} of {} is unknown", pl.lit(what), _first_without(name))
        for what, name in (("work", "work_flop"), ("traffic", "moved"))
    )


def _first_without(name: str) -> pl.Expr:
    return pl.col("op_type").filter(pl.col(name).is_null()).first()


_STEPPED = _MEMBERS["recurrent"].split()
# Such times were off by 20 to 60 % in every model: docs/understand/calibration.md.
LATENCY_BOUND = (
    "bound by latency: most of its work is in steps that wait for each other, so it takes longer "
    "than work and traffic say"
)

SCORE_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "network": pl.String,  # as it is shown
    "model": pl.String,
    "model_hash": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "phase": pl.String,
    "n_layers": pl.Int64,
    "n_layers_unknown": pl.Int64,
    "work_flop": pl.Int64,  # null where that of a layer is unknown
    "traffic_bytes": pl.Int64,  # fused, or else algorithmic; null where unknown
    "note": pl.String,  # that counts are upper bounds, and why the traffic is not the fused one
}


def score_frame(layers: pl.DataFrame, names: Mapping[str, str] | None = None) -> pl.DataFrame:
    """One row for each score of ``layers`` (data.frames.LAYER_SCHEMA), as SCORE_SCHEMA.

    ``names``: how networks are called, by ``data.names.network_key``; None: as their files.
    """
    same = ("model", "model_hash", "batch", "precision", "phase")
    traffic = pl.when("is_fused").then("fused_traffic_bytes").otherwise("traffic_bytes")
    why = pl.col("unknown_json").str.json_path_match("$.fused_traffic_bytes").drop_nulls().first()
    unfused = pl.when(~pl.col("is_fused").first()).then(
        pl.format("its traffic is unfused: {}", why.fill_null("no group is known"))
    )
    is_bound = pl.col("dimensions_json").first().str.contains(f'"{BOUND}', literal=True)
    bound = pl.when(is_bound).then(
        pl.lit("sizes that depend on data count with their upper bounds: it needs at most this")
    )
    lost = pl.col("work_flop").is_null() | pl.col("moved").is_null()
    in_steps = pl.col("op_type").is_in(_STEPPED) | (pl.col("runs") > 1)
    work = pl.col("work_flop")
    is_stepped = work.filter(in_steps).sum() > 0.5 * work.sum()
    stepped = pl.when(is_stepped).then(pl.lit(LATENCY_BOUND))
    scores = (
        layers.lazy()
        .with_columns(is_fused=is_fused())
        .with_columns(moved=traffic)
        .group_by("score_id")
        .agg(
            *(pl.col(name).first() for name in same),
            pl.len().alias("n_layers"),
            lost.sum().alias("n_layers_unknown"),
            _sum_of_known("work_flop").alias("work_flop"),
            _sum_of_known("moved").alias("traffic_bytes"),
            pl.concat_str([bound, unfused, stepped], separator="; ", ignore_nulls=True)
            .replace("", None)
            .alias("note"),
        )
        .collect()
    )
    place = place_in_order(scores["model"])
    scores = scores.sort(place, "batch", "precision", "phase", "score_id", nulls_last=True)
    known = names or {}
    shown = [
        known.get(network_key(model, model_hash), model)
        for model, model_hash in scores.select("model", "model_hash").iter_rows()
    ]
    named = scores.with_columns(pl.Series("network", shown, pl.String))
    return named.select(pl.col(name).cast(kind) for name, kind in SCORE_SCHEMA.items())
