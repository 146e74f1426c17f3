"""``mansard restore``: put a machine back that a run was cut off on."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_json, print_lines
from mansard.cli.options import BoardOption, HostsFileOption, ImagesOption, JsonOption


def restore(
    board: BoardOption = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="A board elsewhere: user@board, or a name in hosts.toml. Repeatable, or several "
            "with commas between."
        ),
    ] = None,
    hosts_file: HostsFileOption = None,
    images: ImagesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put clocks, cores and power mode back as an interrupted bench found them.

    A bench does so itself, whatever ends it but a power cut or SIGKILL. Exit code 1 if
    something could not be put back: then what is missing is said, and nothing is forgotten.
    """
    reporter = TerminalReporter()
    if host:
        _print_boards(api.restore_hosts(host, hosts_file, images, reporter), as_json=as_json)
        return
    restored = api.restore(board, reporter)
    if as_json:
        lines = () if restored is None else restored.lines()
        print_json("restore", {"boards": [{"board": None, "restored": restored, "lines": lines}]})
    elif restored is None:
        print_lines(["nothing to restore: no run was cut off on this machine"])
    else:
        print_lines(restored.lines())


def _print_boards(fleet: results.Fleet[tuple[str, ...]], *, as_json: bool) -> None:
    """Print what was put back on each board; raises the errors of the others."""
    if as_json:
        boards = [
            {"board": name, "restored": None, "lines": lines}  # it tells them as lines alone
            for name, lines in fleet.results.items()
        ]
        print_json("restore", {"boards": boards})
    else:
        for name, lines in fleet.results.items():
            for line in lines or ("nothing to restore: no run was cut off on this board",):
                print_lines([f"{name}: {line}"])
    fleet.check("put back")
