"""Options that have an effect only with others; without them they are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Needed(NamedTuple):
    """What the options ``names`` have an effect beside.

    ``has_effect`` is given the values of all parameters by name. ``why``: in words, why there is no
    effect. ``commands``: of which it holds; None: of all with one of these options.
    """

    names: tuple[str, ...]
    has_effect: Callable[[Mapping[str, Any]], object]
    why: str
    fix: str
    commands: tuple[str, ...] | None = None


_LIMITS = ("max_latency", "max_power", "max_energy", "min_fps", "max_drop", "min_accuracy")
_ONE_OUT = "leave one of them out"
# Refused, not ignored: a person who gives an option relies on it.
NEEDED = (
    Needed(
        ("hosts_file", "remote_folder"),
        lambda given: given["host"],
        "without --host",
        "add --host NAME",
    ),
    Needed(
        ("image", "images", "container_engine"),
        lambda given: not given["local"],
        "with --local, which measures without a container",
        _ONE_OUT,
        ("bench", "measure", "multi run", "multi contention"),
    ),
    Needed(("pick",), lambda given: given["mode"], "without several modes", "add --mode all"),
    Needed(
        ("images",),
        lambda given: given["host"],
        "without --host",
        "add --host NAME",
        ("board restore",),
    ),
    Needed(
        ("local", "dry_run"),
        lambda given: given["measure"],
        "without --measure",
        "add --measure 3",
        ("recommend",),
    ),
    Needed(
        ("board",),
        lambda given: not given["host"],
        "with --host, which names other boards",
        _ONE_OUT,
        ("board restore",),
    ),
    Needed(
        ("board",),
        lambda given: given["mode"],
        "without modes to choose from",
        "add --mode all",
        ("models batch", "report"),
    ),
    Needed(
        ("as_json",),
        lambda given: (given.get("output_format") or given.get("form")) in ("table", "json"),
        "with another --format",
        _ONE_OUT,
        ("score", "board telemetry"),
    ),
    Needed(
        ("interval", "duration"),
        lambda given: not given["once"],
        "with --once, which prints one sample",
        _ONE_OUT,
        ("board watch",),
    ),
    Needed(
        ("fallback", "dla_nodes"),
        lambda given: given["dla"] is not None,
        "without --dla",
        "add --dla 0",
    ),
    Needed(("tolerance",), lambda given: given["check"], "with --no-check", _ONE_OUT),
    Needed(
        ("duration", "local", "one_engine", "dry_run"),
        lambda given: given["run"],
        "without --run",
        "add --run",
        ("multi schedule",),
    ),
    Needed(
        ("battery",),
        lambda given: given["workload"],
        "without --workload: the mean power depends on the rate",
        "write the rate in a workload file",
        ("recommend",),
    ),
    Needed(
        ("rest_power", "efficiency"),
        lambda given: given["battery"],
        "without --battery",
        "add --battery 99Wh",
        ("recommend",),
    ),
    Needed(
        ("probability",),
        lambda given: given.get("workload") or any(map(given.get, _LIMITS)),
        "without a limit",
        "add one, such as --max-latency 20ms",
        ("recommend", "offload tune"),
    ),
)
