"""The class of each operator: kernels of one class come about equally near to a roof.

A calibration has a factor for each class (docs/understand/calibration.md), so there are few of
them: with more, each would rest on too few measurements. Classes follow what limits a kernel and
the code it comes from (a library of convolutions, one of matrix products, a loop over elements),
not the operator's mathematics: Softmax is with the normalizations, because both read a row twice.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

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
    ),
    "attention": (
        "Attention FlexAttention LinearAttention PackedAttention LongformerAttention"
        " DecoderAttention QAttention QOrderedAttention QOrderedLongformerAttention"
        " MultiHeadAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention"
        " GroupQueryAttention SparseAttention PackedMultiHeadAttention DynamicSparseAttention"
        " PagedAttention SparsePagedAttention SparseAttentionIndexer"
        " PackedSparseAttentionIndexer GatedDeltaNet DisentangledAttention_TRT"
        " MultiscaleDeformableAttnPlugin_TRT"
    ),
    "recurrent": "LSTM GRU RNN GRUUnit DynamicQuantizeLSTM AttnLSTM",
    "normalization": (
        "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization"
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
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr"
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
        " DequantizeWithOrder QuantizeBFP DequantizeBFP GatherBlockQuantized"
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
TENSOR_PRECISIONS = ("tf32", "fp16", "bf16", "fp8", "int8", "int4")


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
    found = op_class(op_type)
    if found != "conv":
        return found
    if precision in TENSOR_PRECISIONS:
        return "depthwise" if unit == "CUDA core" else "conv"
    is_short = sum_length in _SUMS_OF_ONE_CHANNEL
    is_wide = input_share is not None and input_share >= _LEAST_INPUT
    return "depthwise" if is_short and is_wide else "conv"


_SUMS_OF_ONE_CHANNEL = frozenset(float(k * k) for k in (3, 5, 7, 9, 11))
_LEAST_INPUT = 0.9
