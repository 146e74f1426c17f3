"""``mansard restore``: put a machine back that a run was cut off on."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.cli.boards import BoardOption, board_root


def restore(
    board: BoardOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Put clocks, cores and power mode back as an interrupted bench found them.

    A bench does so itself, whatever ends it but a power cut or SIGKILL. Exit code 1 if
    something could not be put back: then what is missing is said, and nothing is forgotten.
    """
    from mansard.cli.console import note, print_json
    from mansard.core.text import printable
    from mansard.device.holding.pending import restore as restore_machine

    restored = restore_machine(board_root(board), on_step=lambda step: note(str(step)))
    if as_json:
        print_json({"restored": restored})
    elif restored is None:
        typer.echo("nothing to restore: no run was cut off on this machine")
    else:
        for line in restored.lines():
            typer.echo(printable(line))
