"""Headings in the help of commands with many options, by the option without its dashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

MOST_PLAIN = 20  # options of a command without headings

_OF_HEADING: Mapping[str, str] = MappingProxyType(
    {
        "Network": "batch precision dim phase prompt context data labels samples n-samples "
        "preprocess inputs trip value shape upper-bounds prefill decode kv-cache optimizer "
        "recompute cache no-networks network remote-network remote-predictions workload",
        "Battery": "battery rest-power efficiency",
        "Program or server": "name depends repeat remote-folder metric",
        "Server": "server start model generate concurrency",
        "Engine": "engine provider threads copies wait graph calibration dla dla-nodes fallback "
        "dynamic opt-level workspace compute-capability one-engine",
        "Layers alone": "each-layer groups transitions cpus window boundary rest meter-interval",
        "Networks at once": "devices mapping duration pipelined processes exclusive power-interval",
        "Problem": "from contention max-transitions predict-missing",
        "Search": "goal steady method time-limit front",
        "Costs": "offload costs local-latency local-energy decision-latency decision-energy "
        "offload-latency offload-energy beta",
        "Decision rule": "judge rule logistic balanced held-out seed bins replay",
        "Limits": "max-latency max-power max-energy min-fps min-tokens-per-s max-first-token "
        "max-drop min-accuracy minimise probability check",
        "Mode": "mode pick profile again default measure",
        "Board": "board device processor local host hosts-file image images offline "
        "container-engine yes",
        "Runs": "runs label env calibrate allow-mixed dask jobs keep",
        "Output": "layers curve html output format save-problem run allow-unknown dry-run all "
        "force json help",
    }
)
_HEADINGS = MappingProxyType(
    {option: heading for heading, options in _OF_HEADING.items() for option in options.split()}
)
# Options with another meaning in one command.
_OF_COMMAND: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "measure": MappingProxyType({"prompt": "Server"}),
        "tune": MappingProxyType({"local": "Costs"}),
        "schedule": MappingProxyType({"run": "Networks at once"}),
    }
)


def set_headings(command: str, parameters: Sequence[Any]) -> None:
    """Set the missing headings of options, in a command with more than ``MOST_PLAIN``."""
    options = [one for one in parameters if one.param_type_name == "option"]
    if len(options) <= MOST_PLAIN:
        return
    ours = _OF_COMMAND.get(command, {})
    for option in options:
        name = option.opts[0].lstrip("-")
        option.rich_help_panel = option.rich_help_panel or ours.get(name) or _HEADINGS.get(name)


def by_heading(options: Sequence[Any]) -> Mapping[str, Sequence[Any]]:
    """Options under their headings, in the order of these; those without one under "Options"."""
    groups: dict[str, list[Any]] = {heading: [] for heading in ("Options", *_OF_HEADING)}
    for option in options:
        groups[getattr(option, "rich_help_panel", None) or "Options"].append(option)
    if groups["Options"] and len(groups["Options"]) < len(options):  # that of --help
        groups["Output"] += groups.pop("Options")
    return {heading: group for heading, group in groups.items() if group}
