"""What ssh says when it cannot connect or forward, as one line each with what to do about it.

ssh's words differ little between versions: a few of each message are looked for. Source:
messages of OpenSSH 9.2 that were seen, and of its sources (sshconnect.c, channels.c, misc.c).
"""

from __future__ import annotations

import re

from mansard.containers.hosts import Host
from mansard.core.errors import ContainerError

_ONCE_BY_HAND = "connect once by hand ('ssh {board}'), and see that it asks for nothing"
# Words of ssh's -> what is the matter, and what helps.
_CONNECTING = (
    (
        r"could not resolve hostname|name or service not known|no address associated",
        "there is no machine of that name",
        "check the name, ssh_config and hosts.toml",
    ),
    (
        r"connection timed out|no route to host|network is unreachable|host is down",
        "the board cannot be reached",
        "check that it is switched on and in the network: 'ping {board}'",
    ),
    (
        r"connection refused",
        "the board is there, but no sshd listens on it",
        "start it on the board: 'sudo systemctl enable --now ssh'; or give the port in ssh_config",
    ),
    (
        r"host key verification failed|remote host identification has changed|host key is known",
        "the board's host key is not known, or is another one",
        "connect once by hand ('ssh {board}') and compare the key that it shows",
    ),
    (
        r"permission denied \(|too many authentication failures|no supported authentication",
        "the board refuses our key",
        "put your public key there: 'ssh-copy-id {board}'; " + _ONCE_BY_HAND,
    ),
    (
        r"kex_exchange_identification|banner exchange|connection (reset|closed)",
        "what answers there is no sshd, or it hung up",
        _ONCE_BY_HAND,
    ),
    (
        r"forwarding|address already in use|cannot listen|could not request",
        "the engine's socket cannot be forwarded",
        "allow it in sshd_config on the board: AllowStreamLocalForwarding yes; and look for "
        "forwards in ssh_config that are open already",
    ),
)


def explain_ssh(said: str, board: str) -> ContainerError:
    """Why ssh ended before it was connected."""
    for words, what, fix in _CONNECTING:
        if re.search(words, said, re.IGNORECASE):
            return ContainerError(f"{what} ({said})", where=board, fix=fix.format(board=board))
    return ContainerError(
        f"ssh has ended: {said or 'it does not say why'}",
        where=board,
        fix=_ONCE_BY_HAND.format(board=board),
    )


def explain_forwarding(seen: str, said: str, host: Host) -> ContainerError:
    """Why the engine does not answer though ssh is connected.

    ``seen``: what a look over there found: absent, denied, silent, listening, or nothing.
    """
    path = host.socket
    # OpenSSH 9.2 says "connect failed" of a forward that its configuration does not allow.
    if seen == "listening" or re.search(r"administratively prohibited", said, re.IGNORECASE):
        return ContainerError(
            "its sshd does not allow the engine's socket to be forwarded",
            where=host.name,
            fix="set 'AllowStreamLocalForwarding yes' and 'DisableForwarding no' in sshd_config on "
            "the board, or the user's key there without 'restrict'",
        )
    what, fix = {
        "absent": (
            f"no container engine listens on {path}",
            "install and start Docker on the board: 'sudo systemctl enable --now docker'",
        ),
        "denied": (
            f"this user may not use {path}",
            "add it to the group docker on the board and connect anew: "
            "'sudo usermod -aG docker USER'; that group is as good as root there",
        ),
    }.get(
        seen,
        (
            f"nothing answers on {path}",
            "look at 'systemctl status docker' and its journal on the board",
        ),
    )
    return ContainerError(f"{what}{f' ({said})' if said else ''}", where=host.name, fix=fix)
