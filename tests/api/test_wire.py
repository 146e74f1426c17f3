"""What workers send back: data of every form arrives whole, and nothing in it is run."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.api.parallel.messages import decode, encode
from mansard.core.errors import ClusterError, ModelError

_KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text())
_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(_KEYS, inner) | st.tuples(inner, inner),
)  # fmt: skip


@given(_DATA)
def test_data_arrives_as_it_was_sent(value: object) -> None:
    received = decode(encode(value))
    assert received == value
    assert type(received) is type(value)


def test_arrays_frames_paths_and_errors_arrive() -> None:
    assert decode(encode(Path("a/b"))) == Path("a/b")
    assert decode(encode(frozenset({"a"}))) == frozenset({"a"})
    assert decode(encode(np.float64(0.5))) == 0.5
    assert decode(encode(np.arange(6).reshape(2, 3))).tolist() == [[0, 1, 2], [3, 4, 5]]
    frame = pl.DataFrame({"a": [1, None], "b": [["x"], []]})
    assert decode(encode(frame)).equals(frame)
    error = decode(encode(ModelError("is broken", where="m.onnx", fix="draw it again")))
    assert type(error) is ModelError
    assert str(error) == "m.onnx: is broken; draw it again"


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps([1]),
        b"",
        b"\xff" * 9,
        msgspec.msgpack.encode(["record", "os:system", ["id"]]),
        msgspec.msgpack.encode(["record", "subprocess:Popen", ["id"]]),
        msgspec.msgpack.encode(["named", "mansard.core.processes.programs:run_program", [["id"]]]),
        msgspec.msgpack.encode(["record", "mansard.api.parallel.messages:io.BytesIO", []]),
        msgspec.msgpack.encode(["error", "mansard.api.parallel.messages:Path", ["a", None, None]]),
        msgspec.msgpack.encode(["array", pickle.dumps(np.array([{}]))]),
        msgspec.msgpack.encode(["frame", b"ARROW1"]),
        msgspec.msgpack.encode(["run", "id"]),
    ],
)
def test_bytes_that_are_no_results_are_one_line(data: bytes) -> None:
    with pytest.raises(ClusterError, match="a result that cannot be read"):
        decode(data)
