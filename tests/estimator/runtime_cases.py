"""Small networks of everything that is hard to count, in ONNX's text form.

Each is run by ONNX Runtime too: see test_runtime_truth_small.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto, parser

Value = int | float | tuple[int, ...]

_MICROSOFT = ', "com.microsoft" : 1'


@dataclass(frozen=True)
class Network:
    """A network, the sizes and values it is given, and what may be asked for.

    ``asks``: what the estimator cannot know and has to ask for, by kind and name.
    ``flop``: of its multiply-adds, worked out by hand.
    """

    body: str
    signature: str
    flop: int
    stored: str = ""
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    asks: Mapping[str, int] = field(default_factory=dict)
    opset: int = 17
    domains: str = ""

    def model(self) -> ModelProto:
        """The network as ONNX has it; stored tensors are all ones."""
        held = f"<{self.stored}>" if self.stored else ""
        head = f'<ir_version: 8, opset_import: ["" : {self.opset}{self.domains}]> g'
        return parser.parse_model(f"{head} {self.signature} {held} {{ {self.body} }}")


def _ones(kind: str, name: str, *shape: int) -> str:
    n_elements = 1
    for size in shape:
        n_elements *= size
    dims = ",".join(map(str, shape))
    return f"{kind}[{dims}] {name} = {{{','.join(['1'] * n_elements)}}}"


def _stored(*tensors: str) -> str:
    return ", ".join(tensors)


NETWORKS: dict[str, Network] = {
    # 5 steps, 2 sequences, 2 directions: 4 gates of 4 units over 3 inputs and 4 states
    "LSTM, both directions": Network(
        'y, h = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r)',
        "(float[time, batch, 3] x) => (float[t, 2, b, 4] y, float[2, b, 4] h)",
        2 * 5 * 2 * 2 * 4 * 4 * (3 + 4),
        _stored(_ones("float", "w", 2, 16, 3), _ones("float", "r", 2, 16, 4)),
        {"time": 5, "batch": 2},
    ),
    # 3 gates; the output of all steps is not asked for
    "GRU, last state alone": Network(
        ", y = GRU <hidden_size = 4> (x, w, r, b)",
        "(float[5, 2, 3] x) => (float[1, 2, 4] y)",
        2 * 5 * 2 * 3 * 4 * (3 + 4),
        _stored(
            _ones("float", "w", 1, 12, 3), _ones("float", "r", 1, 12, 4), _ones("float", "b", 1, 24)
        ),
    ),
    "RNN": Network(
        "y, h = RNN <hidden_size = 4> (x, w, r)",
        "(float[5, 2, 3] x) => (float[5, 1, 2, 4] y, float[1, 2, 4] h)",
        2 * 5 * 2 * 4 * (3 + 4),
        _stored(_ones("float", "w", 1, 4, 3), _ones("float", "r", 1, 4, 4)),
    ),
    # 6 rounds, each a product of a row of 3 with 3 x 3
    "Scan": Network(
        "last, y = Scan <num_scan_inputs = 1, body = step (float[1, 3] s, float[1, 3] xi)"
        " => (float[1, 3] s2, float[1, 3] yi)"
        " { p = MatMul(xi, w) s2 = Add(s, p) yi = Relu(s2) }> (s0, x)",
        "(float[1, 3] s0, float[n, 1, 3] x) => (float[1, 3] last, float[n, 1, 3] y)",
        2 * 6 * 3 * 3,
        _stored(_ones("float", "w", 3, 3)),
        {"n": 6},
    ),
    # A carried row of 1 x 4 meets 4 x 4 seven times.
    "Loop with a stored count": Network(
        "y = Loop <body = step (int64 i, bool go, float[1, 4] v)"
        " => (bool go2, float[1, 4] v2) { go2 = Identity(go) v2 = MatMul(v, w) }>"
        " (count, , x)",
        "(float[1, 4] x) => (float[1, 4] y)",
        2 * 7 * 4 * 4,
        _stored("int64 count = {7}", _ones("float", "w", 4, 4)),
    ),
    # The carried rows grow by one a round: 1 to 5 rows of 2 meet 2 x 2.
    "Loop whose shapes grow": Network(
        "y = Loop <body = step (int64 i, bool go, float[n, 2] v)"
        " => (bool go2, float[m, 2] v2)"
        " { go2 = Identity(go) p = MatMul(v, w) v2 = Concat <axis = 0> (p, one) }>"
        " (count, , x)",
        "(float[1, 2] x) => (float[k, 2] y)",
        2 * (1 + 2 + 3 + 4 + 5) * 2 * 2,
        _stored("int64 count = {5}", _ones("float", "w", 2, 2), _ones("float", "one", 1, 2)),
    ),
    # As Keras writes a SimpleRNN: the state starts as stored zeros, the weights are handed
    # from round to round. 1 x 4 meets 4 x 4 in all five rounds, the first one too.
    "Loop from a stored state": Network(
        "y, r = Loop <body = step (int64 i, bool go, float[1, 4] h, float[4, 4] u)"
        " => (bool go2, float[1, 4] h2, float[4, 4] u2)"
        " { go2 = Identity(go) p = MatMul(h, u) row = Gather <axis = 0> (x, i)"
        " s = Add(p, row) h2 = Tanh(s) u2 = Identity(u) }>"
        " (count, , state, w)",
        "(float[5, 4] x) => (float[1, 4] y)",
        2 * 5 * 4 * 4,
        _stored("int64 count = {5}", _ones("float", "w", 4, 4), _ones("float", "state", 1, 4)),
    ),
    # How often is a number that is fed; it has to be told.
    "Loop with a count that is fed": Network(
        "y = Loop <body = step (int64 i, bool go, float[1, 4] v)"
        " => (bool go2, float[1, 4] v2) { go2 = Identity(go) v2 = MatMul(v, w) }>"
        " (count, , x)",
        "(float[1, 4] x, int64 count) => (float[1, 4] y)",
        2 * 3 * 4 * 4,
        _stored(_ones("float", "w", 4, 4)),
        values={"count": 3},
    ),
    # sr is 16000, so the first branch; in it, the inner condition is a shape: 8 > 5.
    "If in If": Network(
        "rate = Equal(sr, high)"
        " y = If (rate) <then_branch = a () => (float[b, 4] ya) {"
        "   size = Shape(x) last = Gather <axis = 0> (size, one) big = Greater(last, five)"
        "   ya = If (big) <then_branch = c () => (float[b, 4] yc) { yc = MatMul(x, w) },"
        "     else_branch = d () => (float[b, 4] yd) { yd = Add(x, x) }>"
        " }, else_branch = e () => (float[b, 4] ye) { p = MatMul(x, w) ye = MatMul(p, v) }>",
        "(float[b, 8] x, int64 sr) => (float[b, 4] y)",
        2 * 3 * 8 * 4,
        _stored(
            "int64 high = {16000}",
            "int64 one = {1}",
            "int64 five = {5}",
            _ones("float", "w", 8, 4),
            _ones("float", "v", 4, 4),
        ),
        {"b": 3},
        {"sr": 16000},
    ),
    # 2 images, 4 channels out of 3, 3 x 3 kernel, 5 x 5 out of 7 x 7
    "dynamic int8 convolution": Network(
        "q, s, z = DynamicQuantizeLinear(x) c = ConvInteger(q, w, z) f = Cast <to = 1> (c)"
        " y = Mul(f, s)",
        "(float[batch, 3, 7, 7] x) => (float[batch, 4, 5, 5] y)",
        2 * (2 * 4 * 5 * 5) * (3 * 3 * 3),
        _stored(_ones("uint8", "w", 4, 3, 3, 3)),
        {"batch": 2},
    ),
    "quantised convolution": Network(
        "q = QuantizeLinear(x, s, z) c = QLinearConv(q, s, z, w, s, z, s, z)"
        " y = DequantizeLinear(c, s, z)",
        "(float[1, 3, 7, 7] x) => (float[1, 4, 5, 5] y)",
        2 * (4 * 5 * 5) * (3 * 3 * 3),
        _stored("float s = {0.5}", "uint8 z = {3}", _ones("uint8", "w", 4, 3, 3, 3)),
    ),
    # The stored matrix is dequantised beforehand: that is free, the product is not.
    "weights behind DequantizeLinear": Network(
        "m = DequantizeLinear(w, s, z) y = MatMul(x, m)",
        "(float[5, 3] x) => (float[5, 4] y)",
        2 * 5 * 3 * 4,
        _stored("float s = {0.5}", "int8 z = {0}", _ones("int8", "w", 3, 4)),
    ),
    "weights as constants": Network(
        "w = Constant <value = float[3, 4] {1,1,1,1,1,1,1,1,1,1,1,1}> ()"
        " u = Transpose <perm = [1, 0]> (w) p = MatMul(x, w) y = MatMul(p, u)",
        "(float[5, 3] x) => (float[5, 3] y)",
        2 * 5 * 3 * 4 + 2 * 5 * 4 * 3,
    ),
    "spectrum": Network(
        "u = Unsqueeze(x, two) d = DFT <onesided = 1, axis = 1> (u) y = ReduceSumSquare"
        " <axes = [2], keepdims = 0> (d)",
        "(float[batch, 64] x) => (float[batch, 33] y)",
        0,
        _stored("int64[1] two = {2}"),
        {"batch": 2},
    ),
    "short-time spectrum": Network(
        "y = STFT <onesided = 1> (x, step, window)",
        "(float[1, n, 1] x) => (float[1, frames, 9, 2] y)",
        0,
        _stored("int64 step = {8}", _ones("float", "window", 16)),
        {"n": 80},
    ),
    # groups of 2 channels, a stride, dilation; then back by a transposed one
    "convolutions": Network(
        "a = Conv <group = 3, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, c)"
        " b = Conv <dilations = [2, 2]> (a, v) y = ConvTranspose <strides = [2, 2]> (b, u)",
        "(float[batch, 6, 16, 16] x) => (float[batch, 5, 9, 9] y)",
        2 * (3 * 6 * 8 * 8) * (2 * 3 * 3)
        + 2 * (3 * 4 * 4 * 4) * (6 * 3 * 3)
        + 2 * (3 * 4 * 4 * 4) * (5 * 3 * 3),
        _stored(
            _ones("float", "w", 6, 2, 3, 3),
            _ones("float", "c", 6),
            _ones("float", "v", 4, 6, 3, 3),
            _ones("float", "u", 4, 5, 3, 3),
        ),
        {"batch": 3},
    ),
    "products": Network(
        "a = Gemm <transA = 1, transB = 1> (x, w, c) b = MatMul(t, a)"
        ' y = Einsum <equation = "bij,jk->bik"> (b, v)',
        "(float[3, 5] x, float[2, 7, 5] t) => (float[2, 7, 6] y)",
        2 * 5 * 4 * 3 + 2 * 2 * 7 * 4 * 5 + 2 * 2 * 7 * 6 * 4,
        _stored(_ones("float", "w", 4, 3), _ones("float", "c", 4), _ones("float", "v", 4, 6)),
    ),
    "shapes computed in the graph": Network(
        "size = Shape(x) batch = Gather <axis = 0> (size, zero) rest = Constant"
        " <value_ints = [-1]> () first = Unsqueeze(batch, zeros) target = Concat <axis = 0>"
        " (first, rest) flat = Reshape(x, target) y = MatMul(flat, w)",
        "(float[batch, 3, 4] x) => (float[batch, 5] y)",
        2 * 6 * 12 * 5,
        _stored("int64 zero = {0}", "int64[1] zeros = {0}", _ones("float", "w", 12, 5)),
        {"batch": 6},
    ),
    "what is picked of a table": Network(
        "rows = Gather(table, i) part = Slice(rows, from, to, axis) twice = Mul(part, part)"
        " y = Add(twice, part)",
        "(int64[n] i) => (float[n, 3] y)",
        0,
        _stored(
            _ones("float", "table", 50, 8),
            "int64[1] from = {2}",
            "int64[1] to = {5}",
            "int64[1] axis = {1}",
        ),
        {"n": 9},
    ),
    # Noughts are what the data has; how many has to be told.
    "rows that are not nought": Network(
        "place = NonZero(x) turned = Transpose <perm = [1, 0]> (place)"
        " rows = Cast <to = 1> (turned) y = MatMul(rows, w)",
        "(float[4, 5] x) => (float[k, 3] y)",
        2 * 20 * 2 * 3,
        _stored(_ones("float", "w", 2, 3)),
        asks={"dim place[1]": 20},
    ),
    # ONNX Runtime's CPU kernels widen these; the file's own types count.
    "half precision": Network(
        "h = Cast <to = 10> (x) p = Gemm(h, w, c) r = Softplus(p) f = Cast <to = 1> (r) y = Exp(f)",
        "(float[5, 3] x) => (float[5, 4] y)",
        2 * 5 * 3 * 4,
        _stored(_ones("float16", "w", 3, 4), _ones("float16", "c", 4)),
    ),
    # 2 sequences of 5, width 8: projections of 8 x 24, then 5 x 5 x 8 twice
    "attention with projections": Network(
        "y = com.microsoft.Attention <num_heads = 2> (x, w, b)",
        "(float[batch, n, 8] x) => (float[batch, n, 8] y)",
        2 * 2 * (5 * 8 * 24 + 2 * 5 * 5 * 8),
        _stored(_ones("float", "w", 8, 24), _ones("float", "b", 24)),
        {"batch": 2, "n": 5},
        domains=_MICROSOFT,
    ),
    # 2 heads of 4: 3 queries, 6 keys
    "attention": Network(
        "y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)",
        "(float[batch, 3, 8] q, float[batch, 6, 8] k, float[batch, 6, 8] v)"
        " => (float[batch, 3, 8] y)",
        2 * 2 * (3 * 6 * 8 + 3 * 6 * 8),
        dims={"batch": 2},
        opset=23,
    ),
    # 5 rows of 2 features, 3 classes; 6 of the 12 coefficients are left over.
    "more coefficients than features": Network(
        "label, y = ai.onnx.ml.LinearClassifier <classlabels_ints = [0, 1, 2],"
        " coefficients = [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.],"
        " intercepts = [1., 2., 3.]> (x)",
        "(float[5, 2] x) => (int64[5] label, float[5, 3] y)",
        2 * 5 * 2 * 3,
        domains=', "ai.onnx.ml" : 1',
    ),
    "fused by ONNX Runtime": Network(
        "a = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) b = com.microsoft.Gelu(a)"
        " y = com.microsoft.QuickGelu(b)",
        "(float[batch, 7, 3] x) => (float[batch, 7, 4] y)",
        2 * 2 * 7 * 4 * 3,
        _stored(_ones("float", "w", 4, 3)),
        {"batch": 2},
        domains=_MICROSOFT,
    ),
}
