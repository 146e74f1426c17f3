"""``mansard restore``: put a machine back that a run was cut off on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mansard.cli.boards import BoardOption, board_root

if TYPE_CHECKING:
    from mansard.cli.container_place import WantedImage


def restore(
    board: BoardOption = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="A board elsewhere: user@board, or a name in hosts.toml. Repeatable, or several "
            "with commas between."
        ),
    ] = None,
    hosts_file: Annotated[
        Path | None, typer.Option(help="TOML file that names boards.", readable=False)
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="TOML file that adds images.", readable=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Put clocks, cores and power mode back as an interrupted bench found them.

    A bench does so itself, whatever ends it but a power cut or SIGKILL. Exit code 1 if
    something could not be put back: then what is missing is said, and nothing is forgotten.
    """
    from mansard.cli.console import note, print_json
    from mansard.cli.container_place import WantedImage
    from mansard.core.text import printable
    from mansard.device.holding.restoring import restore as restore_machine

    if host:
        wanted = WantedImage(table=images)
        _restore_elsewhere(host, hosts_file, wanted, as_json=as_json)
        return
    restored = restore_machine(board_root(board), on_step=lambda step: note(str(step)))
    if as_json:
        print_json({"restored": restored})
    elif restored is None:
        typer.echo("nothing to restore: no run was cut off on this machine")
    else:
        for line in restored.lines():
            typer.echo(printable(line))


def _restore_elsewhere(
    names: list[str], file: Path | None, wanted: WantedImage, *, as_json: bool
) -> None:
    """Have each board's own controller put it back; one that fails does not stop the others."""
    from mansard.cli.console import print_json
    from mansard.cli.remote_place import remote
    from mansard.cli.voice import OwnVoice
    from mansard.containers.fleet import Fleet
    from mansard.containers.hosts import read_hosts
    from mansard.core.errors import MansardError
    from mansard.core.text import printable

    restored: dict[str, tuple[str, ...]] = {}
    errors: dict[str, MansardError] = {}
    for host in read_hosts(names, file):
        try:
            with remote(host, wanted, OwnVoice()) as place:
                restored[host.name] = place.controller.put_back()
        except MansardError as error:
            errors[host.name] = error
    if as_json:
        print_json({"boards": {name: {"restored": lines} for name, lines in restored.items()}})
    else:
        for name, lines in restored.items():
            for line in lines or ("nothing to restore: no run was cut off on this board",):
                typer.echo(printable(f"{name}: {line}"))
    Fleet(restored, errors).check("put back")
