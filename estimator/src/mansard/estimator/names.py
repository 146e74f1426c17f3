"""Whether every name that a person gave means something in the network."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from mansard.core.errors import UsageError
from mansard.estimator.given import NOTHING_GIVEN, Given
from mansard.estimator.inputs import length_name, present_name
from mansard.estimator.model import Model
from mansard.estimator.places import Places, every_node, find_places

_POSITION = re.compile(r"(.*)\[\d+\]", re.DOTALL)
_SHOWN = 10  # names in a message


def check_names(model: Model, places: Places, given: Given) -> None:
    """Raise UsageError for a name in ``given`` that the network does not have."""
    _check_dims(model, places, given)
    inputs = {source.name for source in model.inputs}
    others = [name for name in given.shapes if name not in inputs]
    # A stored tensor may be an input with a default value.
    others += [name for name in given.values if name not in inputs | model.stored.keys()]
    if others:
        written = _written(model)
        for name in others:
            if name not in written:
                raise UsageError(
                    f"the model has no tensor named {name!r}", fix=f"its inputs are {_list(inputs)}"
                )
    for name, trips in given.trips.items():
        if trips < 0:
            raise UsageError(f"{name} = {trips} is no number of trips", fix="give 0 or more")
        loops = {loop.name: loop for loop in every_node(model.nodes) if loop.op_type == "Loop"}
        if not any(name in (loop.name, *loop.outputs) for loop in loops.values()):
            raise UsageError(
                f"the model has no loop named {name!r}",
                fix=f"it has {_list(loops)}" if loops else "it has no Loop at all",
            )


def _check_dims(model: Model, places: Places, given: Given) -> None:
    known = {place.symbol for place in places} | {place.position for place in places}
    others = [name for name in given.dims if name not in known]
    if not others:
        return
    for tree in places.expressions().values():
        known |= tree.names
    for source in model.inputs:
        known |= {length_name(source.name)} if "sequence" in source.kind else set()
        known |= {present_name(source.name)} if "optional" in source.kind else set()
    for output in model.outputs:
        known |= {size for size in output.dimensions or () if isinstance(size, str)}
    others = [name for name in others if name not in known]
    written = _written(model) if others else set()
    for name in others:
        position = _POSITION.fullmatch(name)
        if position is None or position[1] not in written:
            symbols = places.symbols
            raise UsageError(
                f"the model has no dimension named {name!r}",
                fix=f"it has {_list(symbols)}" if symbols else "all its dimensions are fixed",
            )


def _written(model: Model) -> set[str]:
    return {name for node in every_node(model.nodes) for name in node.outputs}


def _list(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def understood(model: Model, given: Given) -> Given:
    """``given`` without the names that mean nothing in ``model``."""
    places = find_places(model, NOTHING_GIVEN)

    def keep(field: str) -> dict[str, object]:
        return {
            name: value
            for name, value in getattr(given, field).items()
            if _means_something(
                model, places, msgspec.structs.replace(NOTHING_GIVEN, **{field: {name: value}})
            )
        }

    kept = {field: keep(field) for field in ("dims", "trips", "values", "shapes")}
    return msgspec.structs.replace(given, **kept)


def _means_something(model: Model, places: Places, given: Given) -> bool:
    try:
        check_names(model, places, given)
    except UsageError:
        return False
    return True
