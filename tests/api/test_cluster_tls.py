"""``--dask tls://``: no scheduler there ends in time, in one line; nothing runs without TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mansard.api.parallel.cluster import connected
from mansard.core.errors import ClusterError
from tests.api.dask_cluster import dask_cluster, sleep_s

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs openssl to make certificates")


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """A certificate that signs itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = [
        str(OPENSSL),
        *["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"],
    ]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("ours", "theirs")}


@contextmanager
def listening(behaviour: str, certificates: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The address of what accepts connections and is no scheduler."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates["theirs" if behaviour == "another authority" else "ours"])
    accepted = []

    def accept(server: socket.socket) -> None:
        while True:
            try:
                stream, _ = server.accept()
            except OSError:
                return
            accepted.append(stream)
            with suppress(OSError):
                if behaviour == "plain text":
                    stream.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                elif behaviour != "silent":
                    stream = context.wrap_socket(stream, server_side=True)
                    accepted.append(stream)
                    stream.sendall(
                        {"garbage in TLS": b"HTTP/1.1 400 Bad\r\n\r\n" * 9}.get(behaviour, b"")
                    )

    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=accept, args=(server,), daemon=True)
        accepting.start()
        yield f"tls://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        accepting.join()  # or it may accept one more, which nobody closes
        for stream in accepted:
            stream.close()


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("silent", "no scheduler of Dask answered in 0.5 s"),
        ("plain text", "TLS refuses what answers"),
        ("another authority", "TLS refuses what answers: self.signed certificate"),
        ("silent in TLS", "no scheduler of Dask answered in 0.5 s"),
        ("garbage in TLS", "the program that answers is not a Dask scheduler"),
    ],
)
def test_what_is_no_scheduler_is_one_line_in_time(
    behaviour: str, words: str, certificates: dict[str, tuple[str, str]]
) -> None:
    path, key = certificates["ours"]
    settings = {
        "distributed.comm.tls.ca-file": path,
        "distributed.comm.tls.client.cert": path,
        "distributed.comm.tls.client.key": key,
    }
    with (
        dask.config.set(settings),
        listening(behaviour, certificates) as address,
        pytest.raises(ClusterError, match=words),
        # A busy machine may take its time for an answer; for silence it is waited in vain.
        connected(address, connect_s=0.5 if "in 0.5 s" in words else 10.0),
    ):
        raise AssertionError("it was taken for a scheduler")


def test_a_scheduler_with_our_certificate_is_taken(
    certificates: dict[str, tuple[str, str]],
) -> None:
    path, key = certificates["ours"]
    settings = {"distributed.comm.tls.ca-file": path}
    for role in ("client", "scheduler", "worker"):
        place = f"distributed.comm.tls.{role}"
        settings |= {f"{place}.cert": path, f"{place}.key": key}
    environment = {
        f"DASK_{name.upper().replace('.', '__').replace('-', '_')}": value
        for name, value in settings.items()
    }
    with dask_cluster(1, "tls", **environment) as cluster:
        assert cluster.address.startswith("tls://")
        with dask.config.set(settings), connected(cluster.address) as workers:
            assert workers.n_workers == 1
            ((_, answer, _),) = workers.completed(sleep_s, [0.0], None)
            assert answer == 0.0
        with (
            dask.config.set(settings),
            pytest.raises(ClusterError, match="no scheduler of Dask answered"),
            connected(cluster.address.replace("tls", "tcp"), connect_s=0.5),
        ):
            raise AssertionError("it connected without TLS")


def test_without_certificates_nothing_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no certificates are named"), connected("tls://[::1]:1"):
        raise AssertionError("it connected")
    gone = dict.fromkeys(
        ("distributed.comm.tls.ca-file", "distributed.comm.tls.client.cert"),
        str(tmp_path / "gone.pem"),
    )
    with (
        dask.config.set(gone),
        pytest.raises(ClusterError, match=r"certificates cannot be read.*No such file"),
        connected("tls://[::1]:1"),
    ):
        raise AssertionError("it connected")
