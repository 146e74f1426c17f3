"""What ssh says when it cannot connect: each of its messages becomes one line with a remedy."""

from __future__ import annotations

import pytest

from mansard.containers.hosts import Host
from mansard.containers.tunnel import explain_forwarding, explain_ssh

BOARD = Host(name="orin", ssh="u@10.0.0.7", port=2222)  # named so in hosts.toml


# As OpenSSH 9.2 writes them, and 10.0 where it differs.
@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("ssh: Could not resolve hostname orin: Name or service not known", "no machine of that"),
        ("ssh: connect to host 10.0.0.9 port 22: Connection timed out", "cannot be reached"),
        ("ssh: connect to host 10.0.0.9 port 22: No route to host", "cannot be reached"),
        ("ssh: connect to host 10.0.0.9 port 22: Connection refused", "no sshd listens"),
        ("Connection timed out during banner exchange", "it is not sshd, or it hangs"),
        ("Host key verification failed.", "host key is unknown"),
        ("nvidia@orin: Permission denied (publickey,password).", "refuses our key"),
        ("Received disconnect from 10.0.0.9 port 22:2: Too many authentication failures",
         "refuses our key"),
        ("kex_exchange_identification: Connection closed by remote host", "no sshd, or it hung up"),
        ("bind: Address already in use | Could not request local forwarding.", "be forwarded"),
        ("", "it does not say why"),
        ("\x1b[2Jsomething else", "ssh has ended"),
    ],
)  # fmt: skip
def test_each_message_has_its_line(said: str, what: str) -> None:
    error = explain_ssh(said, BOARD)
    assert what in error.what
    assert error.where == "orin"
    assert error.fix
    assert "{" not in error.fix
    assert " orin" not in error.fix
    assert "\x1b" not in str(error)


@pytest.mark.parametrize(
    ("seen", "said", "expected"),
    [
        ("absent", "", "'ssh -t -p 2222 u@10.0.0.7 sudo systemctl enable --now docker'"),
        ("denied", "", "'ssh -t -p 2222 u@10.0.0.7 sudo usermod -aG docker USER'"),
        ("silent", "", "'ssh -p 2222 u@10.0.0.7 journalctl -u docker'"),
        ("", "", "systemctl status docker"),
        ("listening", "channel 1: open failed: connect failed", "AllowStreamLocalForwarding yes"),
        ("denied", "channel 2: open failed: administratively prohibited: open failed",
         "AllowStreamLocalForwarding yes"),
    ],
)  # fmt: skip
def test_an_engine_that_does_not_answer_is_explained(seen: str, said: str, expected: str) -> None:
    error = explain_forwarding(seen, said, BOARD)
    assert error.fix is not None
    assert expected in error.fix
    assert "/var/run/docker.sock" in error.what or "sshd" in error.what
