"""Problems of several networks on several accelerators as TOML or JSON files.

The keys of a network are those of ``recommend --workload`` and some more; docs/use/scheduling.md
has them all. What is written can be read again, and is the same problem.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from mansard.api.deciding.workload_files import read_network
from mansard.core.errors import InputError, UsageError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.records import (
    Accelerator,
    ContentionSurface,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
    Record,
    Source,
)
from mansard.core.records.schedule import MOST_TRANSITIONS, ContentionRule, Goal
from mansard.core.storage.documents import read_json, read_toml, readable_json
from mansard.core.storage.files import write_atomic
from mansard.core.units import QuantityKind, format_quantity, parse_quantity

_MOST_BYTES = 1 << 20
_EXAMPLE = "docs/use/scheduling.md has every key, and an example"
_LIMITS = ("max_makespan_s", "max_energy_j", "max_power_w")
_UNSAID = "the file does not say it"


# Problems that ship, by name: re-created from published numbers, which their notes cite.
SHIPPED_PROBLEMS = {
    path.stem: path for path in sorted((Path(__file__).parent / "problems").glob("*.toml"))
}


class _Amount(float):
    """A quantity, in the file a text with its unit."""

    kind: ClassVar[QuantityKind]
    may_be_zero: ClassVar[bool] = False


class _Time(_Amount):
    kind = "time"


class _Cost(_Time):
    may_be_zero = True


class _Energy(_Amount):
    kind = "energy"
    may_be_zero = True


class _PowerAmount(_Amount):
    kind = "power"


class _Rate(_Amount):
    kind = "rate"


class _Bandwidth(_Amount):
    kind = "bandwidth"
    may_be_zero = True


class _Number(float):
    """Finite, and not below 0."""


class _Slope(_Number):
    """Points for each byte per second, in the file for each GB/s."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A table of the file; its fields are called as those of the record that it becomes."""


_Index = Annotated[int, Meta(ge=0, lt=1 << 31)]


class _Accelerator(_Entry, kw_only=True):
    name: str = ""
    kind: Literal["gpu", "dla", "cpu"]
    cpus: tuple[_Index, ...] = ()
    max_segments: _Index = 0


class _Group(
    _Entry,
    kw_only=True,
    rename={
        "time_s": "time",
        "energy_j": "energy",
        "demand_byte_per_s": "demand",
        "leave_s": "leave",
        "enter_s": "enter",
        "leave_error_s": "leave_error",
    },
):
    name: str = ""
    after: str = ""  # the name of the group before it
    source: Source | None = None
    time_s: dict[str, _Time] = {}
    energy_j: dict[str, _Energy] = {}
    demand_byte_per_s: dict[str, _Bandwidth] = {}
    leave_s: dict[str, _Cost] = {}
    enter_s: dict[str, _Cost] = {}
    time_error: dict[str, _Number] = {}
    leave_error_s: dict[str, _Cost] = {}
    nodes: tuple[_Index, ...] = ()


class _Network(_Entry, kw_only=True, rename={"groups": "group"}):
    # These are read by ``read_network``.
    model: Any = None
    rate: Any = None
    batch: Any = None
    precision: Any = None
    max_latency: Any = None
    name: str = ""
    weight: _Number = _Number(1.0)
    groups: Annotated[tuple[_Group, ...], Meta(max_length=500)] = ()


class _Pccs(
    _Entry,
    kw_only=True,
    rename={
        "normal_byte_per_s": "normal_bw",
        "intensive_byte_per_s": "intensive_bw",
        "peak_byte_per_s": "pbw",
        "minor_points": "mrmc",
        "contention_byte_per_s": "cbp",
        "total_byte_per_s": "tbwdc",
        "points_per_byte_per_s": "rate",
        "error_points": "error",
        "left_out_points": "left_out",
    },
):
    """The parameters by their names in PCCS."""

    normal_byte_per_s: _Bandwidth
    intensive_byte_per_s: _Bandwidth
    peak_byte_per_s: _Bandwidth
    minor_points: _Number
    contention_byte_per_s: _Bandwidth
    total_byte_per_s: _Bandwidth
    points_per_byte_per_s: _Slope
    error_points: _Number | None = None
    left_out_points: _Number | None = None


class _Surface(
    _Entry,
    kw_only=True,
    rename={
        "own_byte_per_s": "own",
        "external_byte_per_s": "external",
        "achieved_byte_per_s": "achieved",
    },
):
    own_byte_per_s: tuple[_Bandwidth, ...]
    external_byte_per_s: tuple[_Bandwidth, ...]
    achieved_byte_per_s: tuple[tuple[_Bandwidth, ...], ...]


class _File(
    _Entry,
    kw_only=True,
    rename={
        "is_steady": "steady",
        "max_makespan_s": "max_latency",
        "max_energy_j": "max_energy",
        "max_power_w": "max_power",
        "idle_w": "idle",
        "accelerators": "accelerator",
        "networks": "network",
        "surfaces": "surface",
    },
):
    machine: str = ""
    mode: str = ""
    goal: Goal = "makespan"
    is_steady: bool = False
    max_transitions: Annotated[int, Meta(ge=0, le=MOST_TRANSITIONS)] = 1
    max_makespan_s: _Time | None = None
    max_energy_j: _Energy | None = None
    max_power_w: _PowerAmount | None = None
    idle_w: _PowerAmount | None = None
    source: Source = "measured"  # of times, where a group does not say it
    notes: tuple[str, ...] = ()
    accelerators: Annotated[tuple[_Accelerator, ...], Meta(max_length=16)] = ()
    networks: Annotated[tuple[_Network, ...], Meta(min_length=1, max_length=32)]
    pccs: dict[str, _Pccs] = {}
    surfaces: dict[str, _Surface] = {}
    contention: ContentionRule = "overlap"


_E = TypeVar("_E", bound=_Entry)
_R = TypeVar("_R", bound=Record)


def _record(kind: type[_R], entry: _Entry, **changes: Any) -> _R:
    """``entry`` as a record, with fields of its own in the place of some."""
    fields = {*kind.__struct_fields__} & {*entry.__struct_fields__} - {*changes}
    values = {name: _plain(getattr(entry, name)) for name in fields} | changes
    missing = {name: _UNSAID for name, value in values.items() if value is None}
    return kind(**values, unknown=missing)


def _plain(value: Any) -> Any:
    """Amounts as numbers."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _entry(kind: type[_E], record: Record, **changes: Any) -> _E:
    """``record`` as a table of the file, with fields of its own in the place of some."""
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    given = {
        key: changes.get(name, getattr(record, name, None))
        for name, key in names
        if name in changes or name in record.__struct_fields__
    }
    return msgspec.convert(given, kind, dec_hook=lambda amount, value: amount(value))


def read_problem(path: Path) -> Problem:
    """The problem in ``path``, JSON where it ends in .json, else TOML.

    Paths of models are relative to the file. A network of which the file has no groups has none.
    Raises InputError with one line for whatever the file may hold, and StorageError.
    """
    read = read_json if path.suffix.lower() == ".json" else read_toml
    content = read(path, "a problem")
    try:
        return _problem(msgspec.convert(content, _File, dec_hook=_decoded), path.parent)
    except UsageError as error:
        raise InputError(error.what, where=str(path), fix=error.fix) from error
    except DECODE_ERRORS as error:
        raise InputError(_placed(str(error)), where=str(path), fix=_EXAMPLE) from error


def _decoded(kind: type[Any], value: Any) -> Any:
    """A value of the file as an amount or a number; msgspec adds its place to the errors."""
    if issubclass(kind, _Amount):
        if not isinstance(value, str):
            raise ValueError(f"{value!r} has no unit")
        try:
            return kind(parse_quantity("", value, kind.kind, may_be_zero=kind.may_be_zero))
        except UsageError as error:
            raise ValueError(str(error).strip().replace("write  ", "write ")) from error
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1e15:  # what is not a number is neither
        raise ValueError(f"{value!r} is not a number from 0")
    return kind(_scaled(value, -9) if kind is _Slope else value)


def _scaled(value: float, power: int) -> float:
    """``value`` · 10^``power``, the nearest float."""
    return float(Decimal(repr(float(value))).scaleb(power))


def _placed(message: str) -> str:
    """``message`` with its place in front: ``network 1, group 3, time: …``."""
    what, _, place = message.partition(" - at `")
    words = re.findall(r"(\w+)(?:\[(\d+)\])?", place.partition("[...]")[0])
    shown = ", ".join(f"{name} {int(at) + 1}" if at else name for name, at in words)
    return f"{shown}: {what}" if shown else what


def _problem(file: _File, folder: Path) -> Problem:
    names = _checked([accelerator.name for accelerator in file.accelerators], "accelerator")
    networks = [
        _chain(entry, number, folder, file.source) for number, entry in enumerate(file.networks, 1)
    ]
    _checked([network.name for network in networks], "network")
    for place, named in _named(file, networks):
        if unknown_names := sorted(named - {*names}):
            what = f"{place}: {unknown_names[0]!r} is not an accelerator"
            fix = f"there are {', '.join(names) or 'none'}; add an [[accelerator]]"
            raise UsageError(what, fix=fix)
    return _record(
        Problem,
        file,
        accelerators=tuple(_record(Accelerator, entry) for entry in file.accelerators),
        networks=tuple(networks),
        **{name: float(getattr(file, name) or 0) for name in _LIMITS},
        pccs={name: _record(PccsFit, entry) for name, entry in file.pccs.items()},
        surfaces={name: _surface(entry, name) for name, entry in file.surfaces.items()},
    )


def _checked(names: Sequence[str], what: str) -> Sequence[str]:
    if "" in names:
        raise UsageError(f"{what} {names.index('') + 1} has no name", fix="give it a name")
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise UsageError(f"two are called {twice[0]!r}", fix=f"give each {what} a name of its own")
    return names


def _named(file: _File, networks: Sequence[NetworkChain]) -> list[tuple[str, set[str]]]:
    """Where accelerators are named, and which."""
    places = [("pccs", {*file.pccs}), ("surface", {*file.surfaces})]
    for network in networks:
        for group in network.groups:
            tables = (field for field in msgspec.structs.astuple(group) if isinstance(field, dict))
            places.append((f"group {group.name} of {network.name}", {*chain(*tables)}))
    return places


def _chain(entry: _Network, number: int, folder: Path, source: Source) -> NetworkChain:
    keys = ("model", "rate", "batch", "precision", "max_latency")
    given = {key: value for key in keys if (value := getattr(entry, key)) is not None}
    try:
        network = read_network(given, folder, needs_rate=False)
    except UsageError as error:
        raise UsageError(f"network {number}: {error.what}", fix=error.fix) from error
    name = entry.name or Path(network.model).name.removesuffix(".onnx")
    groups = [
        _record(LayerGroup, group, name=group.name or str(at), source=group.source or source)
        for at, group in enumerate(entry.groups, 1)
    ]
    if any(group.leave_s for group in groups) and not any(group.enter_s for group in groups):
        # ``leave`` is all that a change costs
        groups = [
            msgspec.structs.replace(group, enter_s=dict.fromkeys(group.time_s, 0.0))
            for group in groups
        ]
    _checked([group.name for group in groups], f"group of {name}")
    return NetworkChain(
        name=name,
        groups=_in_order(groups, [group.after for group in entry.groups], name),
        model=network.model,
        batch=network.batch or 1,
        precision=network.precision or "",
        rate_per_s=network.rate_per_s,
        max_latency_s=network.max_latency_s or 0.0,
        weight=float(entry.weight),
    )


def _in_order(
    groups: Sequence[LayerGroup], after: Sequence[str], network: str
) -> tuple[LayerGroup, ...]:
    """The groups as ``after`` chains them; as they stand where no group says what it follows."""
    if not any(after):
        return tuple(groups)
    names, follower = [group.name for group in groups], dict[str, LayerGroup]()
    for group, name in zip(groups, after, strict=True):
        if name and name not in names:
            what = f"{network}: group {group.name!r} is after {name!r}, which is none of its groups"
            raise UsageError(what, fix=f"its groups are {', '.join(names)}")
        if name in follower:
            place = f"after {name!r}" if name else "first"
            what = f"{network}: {follower[name].name!r} and {group.name!r} are both {place}"
            raise UsageError(what, fix="a network is a chain: join branches in one group")
        follower[name] = group
    ordered: list[LayerGroup] = []
    while (next_group := follower.pop(ordered[-1].name if ordered else "", None)) is not None:
        ordered.append(next_group)
    if follower:
        circle = ", ".join(repr(group.name) for group in follower.values())
        what = f"{network}: groups follow each other in a cycle: {circle}"
        raise UsageError(what, fix="let each group follow the one before it")
    return tuple(ordered)


def _surface(entry: _Surface, name: str) -> ContentionSurface:
    axes = (entry.own_byte_per_s, entry.external_byte_per_s)
    is_rising = all(axis and list(axis) == sorted({*axis} - {0}) for axis in axes)
    widths = [len(row) for row in entry.achieved_byte_per_s]
    if not is_rising or widths != [len(axes[1])] * len(axes[0]):
        fix = (
            "own and external ascend from above 0; achieved has for each of own a list for external"
        )
        raise UsageError(f"surface {name} is none", fix=fix)
    return _record(ContentionSurface, entry)


def write_problem(path: Path, problem: Problem) -> None:
    """Write ``problem`` as JSON where ``path`` ends in .json, else as TOML, whole or not at all.

    ``read_problem`` gives the same problem. Raises StorageError.
    """
    file = _entry(
        _File,
        problem,
        **{name: getattr(problem, name) or None for name in _LIMITS},
        accelerators=[_entry(_Accelerator, accelerator) for accelerator in problem.accelerators],
        networks=[_network_entry(network, path.parent) for network in problem.networks],
        pccs={name: _entry(_Pccs, fit) for name, fit in problem.pccs.items()},
        surfaces={name: _entry(_Surface, surface) for name, surface in problem.surfaces.items()},
    )
    content = msgspec.to_builtins(file, enc_hook=_encoded)
    is_json = path.suffix.lower() == ".json"
    write_atomic(path, readable_json(content) if is_json else _toml(content).encode())


def _encoded(value: Any) -> Any:
    """An amount exactly, in the unit that suits it; a number."""
    if not isinstance(value, _Amount):
        return _scaled(value, 9) if isinstance(value, _Slope) else float(value)
    return format_quantity(value, value.kind)


def _network_entry(network: NetworkChain, folder: Path) -> _Network:
    model = network.model or network.name
    is_file = os.path.isfile(model)  # noqa: PTH113 - any text may be there
    return _entry(
        _Network,
        network,
        model=os.path.relpath(model, folder) if is_file else model,
        rate=_encoded(_Rate(network.rate_per_s)) if network.rate_per_s else None,
        precision=network.precision or None,
        max_latency=_encoded(_Time(network.max_latency_s)) if network.max_latency_s else None,
        groups=[_entry(_Group, group) for group in network.groups],
    )


def _toml(content: Mapping[str, Any]) -> str:
    """The TOML of a file: a line for each key, and for each group."""
    nested = ("accelerator", "network", "pccs", "surface")
    lines = [_line(key, content[key]) for key in content if key not in nested]
    for table in content["accelerator"]:
        lines += ["", "[[accelerator]]", *(_line(key, table[key]) for key in table)]
    for network in content["network"]:
        lines += [
            "",
            "[[network]]",
            *(_line(key, network[key]) for key in network if key != "group"),
        ]
        lines += ["group = [", *(f"  {_inline(group)}," for group in network.get("group", ())), "]"]
    for kind in ("pccs", "surface"):
        for name, table in content.get(kind, {}).items():
            lines += ["", f"[{kind}.{_key(name)}]", *(_line(key, table[key]) for key in table)]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{key} = {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(_line(_key(name), value[name]) for name in value)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_inline, value))}]"
    return _quoted(value) if isinstance(value, str) and value else json.dumps(value)


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """A TOML string, or a key."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
