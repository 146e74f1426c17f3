"""``mansard measure --server URL``, or ``--start COMMAND``: a server of a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mansard import api
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.data.network_runs import device_cells
from mansard.cli.data.overview import by_device, generations_table
from mansard.cli.data.summary import generation_tables, print_shortened
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.measuring.option_groups import (
    IdentityGroup,
    MachineGroup,
    ModeGroup,
    OutputGroup,
    ServerGroup,
)


def measure_server(
    _words: Sequence[str],
    modes: ModeGroup,
    machine: MachineGroup,
    identity: IdentityGroup,
    server: ServerGroup,
    output: OutputGroup,
) -> None:
    """Measure a server in each mode and print its times and energies; raises what failed."""
    parse = command_line.parse_counts
    request = command_line.ServerRequest(
        server=server.server,
        start=server.start,
        model=server.model,
        prompts=parse("--prompt", server.prompt),
        generates=parse("--generate", server.generate),
        concurrencies=parse("--concurrency", server.concurrency),
        name=identity.name,
        label=modes.label,
        variables=tuple(modes.env or ()),
        depends=tuple(identity.depends or ()),
        n_rounds=identity.repeat,
        is_again=modes.again,
        mode=modes.mode,
        pick=modes.pick,
        profile=modes.profile,
        runs=modes.runs,
        board=machine.board,
        hosts=tuple(machine.host or ()),
        hosts_file=machine.hosts_file,
        remote_folder=identity.remote_folder,
    )
    if modes.dry_run:
        print_dry_runs(api.dry_run(request, TerminalReporter()), as_json=output.as_json)
        return
    measured = command_line.measure_server(request, TerminalReporter())
    print_generations(measured, all_rows=output.all_rows, as_json=output.as_json)


def print_generations(result: results.ServerResult, *, all_rows: bool, as_json: bool) -> None:
    """Print what was measured; raises the error of what was not."""
    if as_json:
        rows = [
            {"mode": one.manifest.mode_read_back, "run": one.run, "times": one.times}
            for one in result.measured
        ]
        print_json("measure-server", {"generations": rows})
    else:
        times = [one.times for one in result.measured]
        short = by_device(times, generations_table)
        print_shortened(generation_tables(times) if all_rows else short)
        names = device_cells(times)
        for one in result.measured:
            name = names[one.times.device]
            _note_doubts(one, name and f"{name}, ")
        _note_energies(one.times for one in result.measured)
    result.check()


def _note_doubts(one: results.MeasuredGeneration, machine: str) -> None:
    where = f"{machine}{one.times.mode}, {one.run.prompt_tokens} + {one.run.generate_tokens} tokens"
    where += f", {one.run.concurrency} at once" if one.run.concurrency > 1 else ""
    for why in one.run.disturbances:
        note(f"{where}: disturbed: {why}")
    rejected = Counter(row.rejected for row in one.run.rounds[1:] if row.rejected)
    for why, n_rounds in rejected.items():
        rounds = "1 round does" if n_rounds == 1 else f"{n_rounds} rounds do"
        note(f"{where}: {rounds} not count: {why}")
    n_throttled = one.run.conditions.n_throttle_events
    if n_throttled:
        note(f"{where}: throttled")
    n_short = sum(
        request.n_tokens < one.run.generate_tokens
        for row in one.run.counted
        for request in row.requests
    )
    if n_short:
        note(f"{where}: {n_short} of {one.times.n_requests} answers were shorter than requested")
    if one.run.stability == "unstable":
        why = one.run.unknown.get("stability_interval", "the rounds differ")
        note(f"{where}: the times are uncertain: {why}; use --profile full")


def _note_energies(times: Iterable[results.GenerationTimes]) -> None:
    """Why energies are lacking, each reason once."""
    reasons: dict[str, str] = {}
    for row in times:
        for phase in ("prefill", "decode"):
            why = row.unknown.get(f"{phase}_token_j")
            if why:
                reasons.setdefault(why, phase)
    for why, phase in reasons.items():
        note(f"energy of the {phase} unknown: {why}")
