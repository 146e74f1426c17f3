"""One function for each thing a person wants; they return records and frames, and print nothing.

    from mansard import api

    api.score([Path("resnet50.onnx")]).scores[0].layers
    api.bench(api.BenchRequest(mode="15W,MAXN"))
    api.recommend(api.PredictionRequest(runs=("runs",)), api.Wanted(max_latency_s=20e-3))

Notes, progress and questions go to a ``Reporter``; without one a function is silent, and
declines downloads. Errors are ``mansard.core.errors.MansardError``. Everything is imported on
first use, as ``__init__.pyi`` lists it; docs/use/python.md shows each function, and ``results``
has the types of what they return. Modules have plural names (``scores``): one that
is called like its function (``score``) would hide it.
"""

from __future__ import annotations

from inspect import isfunction
from typing import Any

from mansard.core.lazy_names import lazy_names


def _checked(value: Any) -> Any:
    """A function of the façade says which of its arguments is of another type."""
    if not isfunction(value):
        return value
    from mansard.api.arguments import checked

    return checked(value)


__getattr__, __dir__ = lazy_names(__name__, __file__, _checked)
