"""``mansard measure MODEL --each-layer``: networks, their parts alone, and the sum of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mansard import api
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.data.summary import group_tables, part_tables
from mansard.cli.measuring.networks import as_dictionary, print_times, request_of
from mansard.cli.measuring.option_groups import (
    ModeGroup,
    NetworkGroup,
    OutputGroup,
    PartGroup,
    PlaceGroup,
)
from mansard.cli.tables import print_tables

_TERMS = (
    "Shares of the whole network's time. Calls: the engine is called once for each part, not once",
    "for all. Conversions: casts and reorders that it adds at the cuts. Fusion: nodes that it runs",
    "as one layer in the network and apart here. Caches: data of a part that runs alone stay near.",
    "Rest: the cost of the profile, starts of nodes, noise.",
)


def measure_layers(
    models: Sequence[str],
    modes: ModeGroup,
    how: NetworkGroup,
    alone: PartGroup,
    place: PlaceGroup,
    output: OutputGroup,
) -> None:
    """Run networks, then their parts alone, in each mode; raises the error of what was not."""
    request = request_of(models, modes, how, place)
    kind, slowest = api.parse_each_layer(how.each_layer or "all")
    settings = api.LayerSettings(
        kind=kind,
        slowest=slowest,
        window_s=alone.window,
        boundary_s=alone.boundary,
        rest_s=alone.rest,
        meter_period_s=alone.meter_interval,
        n_groups=alone.groups,
        with_transitions=alone.transitions,
        partitions=tuple(map(api.parse_cpus, alone.cpus or [])),
    )
    result = api.measure_layers(request, settings, TerminalReporter(is_agreed=place.yes))
    print_layers(
        result,
        modes.runs,
        with_layers=how.layers,
        all_rows=output.all_rows,
        as_json=output.as_json,
    )


def print_layers(
    result: api.LayersResult,
    runs: Path,
    *,
    with_layers: bool,
    all_rows: bool,
    as_json: bool,
) -> None:
    """Print the networks, their parts and the sums; raises the error of what was not measured."""
    if as_json:
        print_json(
            "measure",
            {
                **as_dictionary(result.whole),
                "parts": result.parts,
                "sums": result.sums,
                "groups": result.groups,
            },
        )
    else:
        print_times(result.whole, with_layers=with_layers, all_rows=all_rows)
        print_tables(part_tables(result.sums, result.parts))
        print_tables(group_tables(result.groups))
        if result.sums:
            note(" ".join(_TERMS))
        for each in result.sums:
            if each.difference_s is None:
                note(f"{each.network}: no sum against the whole: {each.unknown['difference_s']}")
        _note_energy(result.parts)
        note(f"kept in {runs}: mansard report --runs {runs} draws it")
    result.check()


def _note_energy(parts: Sequence[api.PartTimes]) -> None:
    """Why parts have no energy, each reason once."""
    reasons = Counter(row.unknown["energy_j"] for row in parts if row.energy_j is None)
    for why, n_parts in reasons.items():
        note(f"no energy of {n_parts} of {len(parts)} parts: {why}")
