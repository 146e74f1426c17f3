"""Loops in ONNX's text form that several tests start from."""

from __future__ import annotations

from tests.estimator.networks import stored

WHILE = """g (float[1,3] x) => (float[a,b] y, int64 k)
    <int64 zero = {0}, int64 step = {2}, int64 end = {%d}, bool yes = {1}> {
    y, k = Loop("", yes, x, zero) <body = b (int64 i, bool c, float[p,q] h, int64 j)
        => (bool d, float[p2,q2] e, int64 j2) {
        e = Mul(h, x)
        j2 = Add(j, step)
        d = Less(j2, end)
    }> }"""


def counted(n: int, body: str = "", more: str = "") -> str:
    """A loop over ``n`` products, which counts by itself too and collects what it computes."""
    return stored(
        f"""g (float[2,3] x) => (float[a,b] y, int64 k, float[s,t,u] z)
            <float[3,3] w, int64 n = {{{n}}}, int64 zero = {{0}}, int64 one = {{1}}> {{
            y, k, z = Loop(n, "", x, zero) <body = b (int64 i, bool c, float[p,q] h, int64 j)
                => (bool d, float[p2,q2] e, int64 j2, float[p3,q3] f) {{
                d = Identity(c)
                e = MatMul(h, w)
                j2 = Add(j, one)
                {body}
                f = Identity(e)
            }}>
            {more}
        }}""",
        w=(3, 3),
    )
