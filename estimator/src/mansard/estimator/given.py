"""What a person says about a network that its file leaves open."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.estimator.tensors import Shape

Value = int | float | bool | tuple[int | float | bool, ...]


class Given(msgspec.Struct, frozen=True):
    """Sizes, counts and values that the file does not fix.

    ``dims``: dimensions by name, or by place as ``tensor[axis]``; of a sequence that is
    an input, ``name.length``; of an optional one, ``name.present`` (1 or 0).
    ``trips``: how often a loop runs, by the name of its node or of one of its outputs.
    ``values``: small integers and numbers held by inputs (or written by nodes) that
    shapes and branches depend on. ``shapes``: whole shapes by tensor.
    """

    batch: int | None = None
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)
    trips: Mapping[str, int] = msgspec.field(default_factory=dict)
    values: Mapping[str, Value] = msgspec.field(default_factory=dict)
    shapes: Mapping[str, Shape] = msgspec.field(default_factory=dict)


NOTHING_GIVEN = Given()
