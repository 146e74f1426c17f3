"""``mansard restore``: put a machine back that a run was cut off on."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.cli.boards import BoardOption, board_root


def restore(
    board: BoardOption = None,
    host: Annotated[
        str | None, typer.Option(help="A board elsewhere: user@board, or a name in hosts.toml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Put clocks, cores and power mode back as an interrupted bench found them.

    A bench does so itself, whatever ends it but a power cut or SIGKILL. Exit code 1 if
    something could not be put back: then what is missing is said, and nothing is forgotten.
    """
    from mansard.cli.console import note, print_json
    from mansard.core.text import printable
    from mansard.device.holding.pending import restore as restore_machine

    if host is not None:
        _restore_elsewhere(host, as_json=as_json)
        return
    restored = restore_machine(board_root(board), on_step=lambda step: note(str(step)))
    if as_json:
        print_json({"restored": restored})
    elif restored is None:
        typer.echo("nothing to restore: no run was cut off on this machine")
    else:
        for line in restored.lines():
            typer.echo(printable(line))


def _restore_elsewhere(name: str, *, as_json: bool) -> None:
    """Have a board's own steward put it back."""
    from mansard.cli.console import print_json
    from mansard.cli.container_place import WantedImage
    from mansard.cli.remote_place import remote
    from mansard.cli.voice import OwnVoice
    from mansard.containers.hosts import read_hosts
    from mansard.core.text import printable

    for host in read_hosts([name]):
        with remote(host, WantedImage(), OwnVoice()) as place:
            lines = place.steward.put_back()
        if as_json:
            print_json({"board": host.name, "restored": list(lines)})
        for line in lines or ("nothing to restore: no run was cut off on this board",):
            if not as_json:
                typer.echo(printable(f"{host.name}: {line}"))
