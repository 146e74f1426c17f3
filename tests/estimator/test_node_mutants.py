"""Nodes of every operator with sizes, values and attributes that make no sense.

Whatever is wrong with a node is one error of ours; nothing else comes out, and nothing
takes the size of a tensor for the work of looking at it.
"""

from __future__ import annotations

import contextlib
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.errors import MansardError
from mansard.estimator import score
from tests.estimator.models import Input, single_model
from tests.estimator.test_formula_table import CASES
from tests.estimator.version_cases import VERSION_CASES

_FORMS = [
    *((name, inputs, dict(own)) for name, inputs, own, _ in CASES),
    *((name, inputs, {**own, "opset": opset}) for name, opset, inputs, own, _ in VERSION_CASES),
]
_INTEGERS = (0, 1, -1, 2, 3, -7, 100, 2**31, 2**40, 2**62, -(2**63))
_NUMBERS = (0.0, -1.0, 1e38, float("inf"), float("nan"))
_SIZES = (0, 1, 2, 3, 4, 7, 2**20, 2**40)
_VERSIONS = (1, 6, 9, 11, 13, 18, 22, 28)


def _mutated_input(source: Input, chance: random.Random) -> Input:
    if isinstance(source, str):
        if "[" in source and chance.random() < 0.3:
            shape = [str(chance.choice(_SIZES)) for _ in range(chance.randint(0, 5))]
            return f"{source.partition('[')[0]}[{','.join(shape)}]" if shape else ""
        return "" if chance.random() < 0.1 else source
    if chance.random() < 0.6:
        return source
    pool = _INTEGERS if source.dtype.kind == "i" else _INTEGERS[:7]
    values = [chance.choice(pool) for _ in range(chance.randint(0, 6))]
    return np.asarray(values).astype(source.dtype)


def _mutated_attribute(value: object, chance: random.Random) -> object:
    if chance.random() < 0.6:
        return value
    if isinstance(value, int):
        return chance.choice(_INTEGERS)
    if isinstance(value, float):
        return chance.choice(_NUMBERS)
    if isinstance(value, list) and value and isinstance(value[0], int):
        return [chance.choice(_INTEGERS) for _ in range(chance.randint(1, 5))]
    return value


@settings(max_examples=400)
@given(st.integers(0, 2**32))
def test_a_broken_node_is_one_error_of_ours(seed: int) -> None:
    chance = random.Random(seed)
    name, inputs, own = chance.choice(_FORMS)
    domain, _, op_type = name.rpartition(".")
    attributes = {
        key: value if key in ("opset", "outputs") else _mutated_attribute(value, chance)
        for key, value in own.items()
        if key != "dims"
    }
    if chance.random() < 0.5:
        attributes["opset"] = chance.choice(_VERSIONS)
    if chance.random() < 0.3:
        attributes["axis"] = chance.choice(_INTEGERS)
    sources = [_mutated_input(source, chance) for source in inputs]
    proto = single_model(op_type, sources, domain=domain, **attributes)  # type: ignore[arg-type]
    with contextlib.suppress(MansardError):
        score(proto.SerializeToString(), dims=own.get("dims"))  # type: ignore[arg-type]
