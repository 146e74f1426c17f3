"""Which version of each operator domain a model, or a function in it, uses."""

from __future__ import annotations

from collections.abc import Iterable

from mansard.core.errors import ModelError
from mansard.estimator.graph.protobuf import fields, signed
from mansard.estimator.model import normal_domain

_DOMAIN, _VERSION = 10, 16  # OperatorSetIdProto of onnx.proto: 8 · field + kind
_NEWEST = 10_000  # ONNX adds about two a year and is at 26: beyond this it is no version


def read_opsets(messages: Iterable[bytes]) -> dict[str, int]:
    """Versions by domain, from messages OperatorSetIdProto.

    Raises ModelError where the version of the default domain is none. One that is
    newer than any known is fine: an operator is known by its name.
    """
    opsets: dict[str, int] = {}
    for message in messages:
        domain, version = b"", 0
        for key, content in fields(message):
            if key == _DOMAIN:
                domain = content
            elif key == _VERSION:
                version = signed(content)
        opsets[normal_domain(domain.decode())] = version
    version = opsets.get("", 1)
    if not 1 <= version <= _NEWEST:
        raise ModelError(
            f"its operator set is of version {version}, which there is not",
            fix="the file is damaged; export it again",
        )
    return opsets
