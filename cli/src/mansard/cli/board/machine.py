"""``board modes``, ``doctor`` and ``board restore``: what a machine can be set to, and measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mansard import api
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, note, print_beside, print_json, print_lines
from mansard.cli.options import BoardOption, HostsFileOption, ImagesOption, JsonOption
from mansard.cli.remedies import with_given
from mansard.cli.tables import print_fitting, print_table
from mansard.core.records import PowerMode
from mansard.core.table import Table
from mansard.core.text import printable


def doctor(board: BoardOption = None, as_json: JsonOption = False) -> None:
    """Check what can be measured on this machine, and print remedies.

    Exits with 1 if measuring is impossible. Missing parts do not fail.
    """
    checks = [
        msgspec.structs.replace(check, fix=None if check.fix is None else with_given(check.fix))
        for check in api.doctor(board)
    ]
    if as_json:
        print_json("doctor", {"checks": checks})
    else:
        print_checks(checks)
    if any(check.status == "broken" for check in checks):
        raise typer.Exit(1)


def print_checks(checks: Sequence[results.Check]) -> None:
    """Print a line for each check, and one with the remedy where something is wrong."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        lead = f"{check.status:<8} {printable(check.name):<{width}}  "
        print_beside(lead, check.detail)
        if check.fix is not None:
            print_beside(f"{'':<{len(lead)}}→ ", check.fix)


def restore(
    board: BoardOption = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Another board: user@board or a name in hosts.toml. Repeatable, or "
            "comma-separated."
        ),
    ] = None,
    hosts_file: HostsFileOption = None,
    images: ImagesOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every write; change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore clocks, cores and power mode after an interrupted run.

    Runs restore the board themselves unless the power fails or SIGKILL ends them. Exits with 1 and
    lists what could not be restored; the record is kept.
    """
    reporter = TerminalReporter()
    if host:
        fleet = command_line.restore_hosts(host, hosts_file, images, reporter, is_dry_run=dry_run)
        _print_boards(fleet, is_dry_run=dry_run, as_json=as_json)
        return
    restored = api.restore(board, reporter, is_dry_run=dry_run)
    if as_json:
        lines = () if restored is None else restored.lines()
        print_json("restore", {"boards": [{"board": None, "restored": restored, "lines": lines}]})
    elif restored is None:
        print_lines(["nothing to restore: no interrupted run on this machine"])
    elif dry_run:
        rows = [(line,) for line in restored.changes or ("no writes",)]
        print_table("Dry run: nothing is changed", ("write",), rows)
    else:
        print_lines(restored.lines())


def _print_boards(
    fleet: results.Fleet[tuple[str, ...]], *, is_dry_run: bool, as_json: bool
) -> None:
    """Print what each board restored or would restore; raises the errors of the others."""
    if as_json:
        boards = [
            {"board": name, "restored": None, "lines": lines}  # a host sends lines only
            for name, lines in fleet.results.items()
        ]
        print_json("restore", {"boards": boards})
    else:
        if is_dry_run:
            print_lines(["dry run: nothing is changed"])
        for name, lines in fleet.results.items():
            for line in lines or ("nothing to restore: no interrupted run on this board",):
                print_lines([f"{name}: {line}"])
    if is_dry_run:
        fleet.check("listed", "lists")
    else:
        fleet.check("put back", "restores")


def modes(
    board: BoardOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="nvpmodel.conf, or output of 'nvpmodel -p --verbose', to list instead.",
            readable=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """List the power modes with their clocks, and the peaks that follow from them.

    Peaks are modelled from the table of modules, not measured. Nothing is set.
    """
    listing = api.modes(board, config)
    if as_json:
        print_json("modes", _document(listing))
    elif isinstance(listing, results.AvailableModes):
        _print_available(listing)
    else:
        _print_listing(listing)


def _document(listing: results.AvailableModes | results.Listing) -> dict[str, object]:
    """The same fields for every machine; of one that is no Jetson most are not known."""
    if isinstance(listing, results.Listing):
        return {"machine": None, **msgspec.structs.asdict(listing)}
    board = dict.fromkeys(results.Listing.__struct_fields__)
    unknown = dict.fromkeys(results.ListedMode.__struct_fields__)
    return {
        **board,
        "machine": listing.machine,
        "modes": [{**unknown, "mode": mode, "resolved_from": {}} for mode in listing.modes],
        "notes": [
            "not a Jetson: modes are numbers of cores, or the card's",
            *listing.notes,
        ],
        "ignored": [],
    }


def _print_available(available: results.AvailableModes) -> None:
    if any(mode.power_limit_w is not None for mode in available.modes):
        columns: tuple[str, ...] = ("mode", "power W")
        rows: list[tuple[str, ...]] = [(mode.name, _watts(mode)) for mode in available.modes]
    else:
        columns = ("mode", "cores", "CPU MHz")
        rows = [
            (mode.name, str(mode.n_cpus), _megahertz(mode, "cpu_hz")) for mode in available.modes
        ]
    print_table(f"Power modes of {available.machine}", columns, rows)
    for line in available.notes:
        note(line)


def _print_listing(listing: results.Listing) -> None:
    of = listing.module or listing.soc or "an unknown board"
    if listing.is_simulated:
        of = f"a simulated {of}"
    rows = [_row(one) for one in listing.modes]
    table = Table(f"Power modes of {of}, from {listing.where}", _COLUMNS, rows)
    print_fitting(table, _LESS_TOLD, "--json has them")
    for line in _footnotes(listing):
        note(line)


_COLUMNS = (
    "mode",
    "state",
    "cores",
    "CPU MHz",
    "GPU MHz",
    "EMC MHz",
    "DLA MHz",
    "SMs",
    "CUDA cores",
    "FP32 TFLOP/s",
    "FP16 tensor",
    "DRAM GB/s",
    "GPU gets",
    "id",
)


_LESS_TOLD = ("CUDA cores", "id", "DLA MHz", "GPU gets", "SMs")  # of many modes, at 80 columns


def _row(one: results.ListedMode) -> tuple[str, ...]:
    modelled = one.modelled
    marks = (
        ("present", one.is_present),
        ("default", one.is_default),
        ("reboot?", one.may_need_reboot is not None),
    )
    return (
        one.mode.name,
        ", ".join(word for word, holds in marks if holds),
        str(one.mode.n_cpus),
        *(_clock(one, field) for field in ("cpu_hz", "gpu_hz", "memory_hz", "dla_hz")),
        _count(one.resolved.n_sms),
        _count(modelled.cuda_cores),
        _scaled(modelled.fp32_flop_per_s, 1e12),
        _scaled(modelled.fp16_tensor_flop_per_s, 1e12),
        _scaled(modelled.memory_bytes_per_s, 1e9),
        _scaled(modelled.memory_roof_bytes_per_s, 1e9),
        str(one.id),
    )


def _clock(one: results.ListedMode, field: str) -> str:
    """A cap in MHz; with ≤ where the mode sets none and this is the highest there is."""
    if getattr(one.mode, field) is not None:
        return _megahertz(one.mode, field)
    if getattr(one.resolved, field) is not None:
        return f"≤ {_megahertz(one.resolved, field)}"
    return "uncapped" if one.mode.unknown[field] == "uncapped" else "–"


def _megahertz(mode: PowerMode, field: str) -> str:
    hz = getattr(mode, field)
    return "–" if hz is None else f"{hz / 1e6:.6g}"


def _watts(mode: PowerMode) -> str:
    return "–" if mode.power_limit_w is None else f"{mode.power_limit_w:.6g}"


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _scaled(value: float | None, unit: float) -> str:
    return "–" if value is None else f"{value / unit:.3g}"


def _footnotes(listing: results.Listing) -> list[str]:
    """What the table cannot say: sources, gaps and lines that were not understood."""
    lines = ["Peaks and bandwidths are modelled from the clocks, not measured."]
    sources: dict[str, str] = {}
    for one in listing.modes:
        sources.update(one.resolved_from)
    if sources:
        whole = "; ".join(f"{_WORDS[field]}: {source}" for field, source in sources.items())
        lines.append(f"≤: the mode sets no cap; this is the highest clock ({whole}).")
    lines += [
        f"{one.mode.name} may need a reboot: {one.may_need_reboot}"
        for one in listing.modes
        if one.may_need_reboot is not None
    ]
    return [*lines, *_gaps(listing), *listing.notes, *(f"ignored {one}" for one in listing.ignored)]


_WORDS = {
    "cpu_hz": "CPU",
    "gpu_hz": "GPU",
    "memory_hz": "EMC",
    "dla_hz": "DLA",
    "n_sms": "SMs",
    "cuda_cores": "CUDA cores",
    "fp32_flop_per_s": "FP32",
    "fp16_tensor_flop_per_s": "FP16 tensor",
    "memory_bytes_per_s": "DRAM",
    "memory_roof_bytes_per_s": "DRAM of the GPU",
}


def _gaps(listing: results.Listing) -> list[str]:
    """One line for each reason why numbers are missing: which ones, and in which modes."""
    gaps: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for one in listing.modes:
        for field, why in one.modelled.unknown.items():
            fields, names = gaps.setdefault(why, ({}, {}))
            fields[_WORDS[field]] = names[one.mode.name] = None
    lines = []
    for why, (fields, names) in gaps.items():
        which = "every mode" if len(names) == len(listing.modes) else ", ".join(names)
        lines.append(f"{', '.join(fields)} unknown in {which}: {why}")
    return lines
