"""Work on other machines: a scheduler of Dask and its workers (docs/use/beyond-one-machine.md).

Dask sends the work, does that of a lost worker again, and gathers what comes of it. What is here
says which address may be used, checks that all sides are alike, and turns what goes wrong into one
line. Nothing else imports Dask, and this only where ``--on`` is given.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import pickle
import platform
import queue
import re
import socket
import ssl
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from mansard.api.peer_pickles import RefusedPickle, refused_pickles
from mansard.api.wire import decode, encode
from mansard.core.errors import ClusterError, MansardError, UsageError
from mansard.core.hashing import content_hash
from mansard.core.version import VERSION

Item = TypeVar("Item")
# An item, or what is sent in its place, and what all items share.
Function = Callable[[Any, Any], Any]

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:[0-9]{1,5}")
_CONNECT_S = 10.0  # until a scheduler answers, and until it has a worker
_ALONE_S = 60.0  # that there may be no worker, or no scheduler, later on: one is started again
_POLL_S = 0.5
_MOST_FRAMES = 64  # of a scheduler's first message, which is short
_PACKAGES = ("numpy", "polars", "msgspec", "numba", "distributed")
_SHOWN = 3  # workers in a message


class Answer(NamedTuple):
    """What came of an item. ``is_lost``: each worker that had it ended, so there is no result."""

    item: Any
    result: Any
    is_lost: bool = False


class Cluster:
    """Workers that are like this process."""

    def __init__(self, client: Any, address: str, refused: Sequence[str] = ()) -> None:
        self._client, self._address = client, address
        self._refused = refused  # names in pickles of peers, as they come
        self.n_at_once = self._count()

    def unordered(
        self,
        function: Function,
        items: Iterable[Item],
        *,
        shared: Any = None,
        prepare: Callable[[Item], Any] | None = None,
        n_together: int = 1,
    ) -> Iterator[Answer]:
        """``function(item, shared)`` of each item on some worker, as they are done.

        ``items`` are taken when they are sent, a few more than can run: what is not sent yet takes
        no memory, and may depend on the answers so far. ``prepare`` makes here what is sent of an
        item. ``n_together``: items sent at a time. Raises what ``function`` raises, ClusterError
        where the scheduler or all workers are gone.
        """
        from distributed.scheduler import KilledWorker

        source, finished = iter(items), queue.SimpleQueue[Any]()
        # As bytes: Dask would look inside for futures, and cannot send every error.
        common = self._submit(bytes, pickle.dumps(shared))
        running: dict[str, tuple[Any, list[Item]]] = {}  # what has no future here is forgotten
        try:
            while True:
                while len(running) < 2 * self.n_at_once:
                    some = list(itertools.islice(source, n_together))
                    if not some:
                        break
                    sent = some if prepare is None else [prepare(item) for item in some]
                    future = self._submit(_work, function, pickle.dumps(sent), common, versions())
                    running[future.key] = future, some
                    future.add_done_callback(finished.put)
                if not running:
                    return
                future = self._next(finished)
                done = running.pop(future.key)[1]
                try:
                    results = decode(future.result())
                except KilledWorker:
                    yield from (Answer(item, None, is_lost=True) for item in done)
                    continue
                except Exception as error:
                    raise self._told(error) from error
                if isinstance(results, MansardError):
                    raise results
                if not isinstance(results, list) or len(results) != len(done):
                    raise ClusterError(
                        "a worker sent results of other work",
                        where=self._address,
                        fix="check who runs workers there, and use TLS",
                    )
                yield from map(Answer, done, results)
        finally:
            if running:  # what was sent and is not wanted any more
                with contextlib.suppress(Exception):
                    self._client.cancel([future for future, _ in running.values()], force=True)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"mansard-{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        with warnings.catch_warnings():  # that what is shared is large
            warnings.simplefilter("ignore", UserWarning)
            return self._client.submit(function, *arguments, key=key, pure=False)

    def _next(self, finished: queue.SimpleQueue[Any]) -> Any:
        """The next future that is done; ClusterError where none can be."""
        alone_since: float | None = None
        while True:
            with contextlib.suppress(queue.Empty):
                return finished.get(timeout=_POLL_S)
            if self._refused:
                raise _hostile(self._address, self._refused[0])
            self.n_at_once = self._count() or self.n_at_once
            if self._count():
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _ALONE_S:
                raise ClusterError(
                    f"it has had no worker for {_ALONE_S:.0f} s, or it is gone",
                    where=self._address,
                    fix="start workers with 'dask worker', and the same command again",
                )

    def _count(self) -> int:
        """How many items the workers that are there do at once; 0 without a scheduler too."""
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=_CONNECT_S)
        except Exception:  # whatever a connection that breaks raises
            return 0
        return sum(threads.values())

    def _told(self, error: Exception) -> MansardError:
        """In one line what a worker or the scheduler failed with."""
        from distributed import CancelledError

        if self._refused:
            return _hostile(self._address, self._refused[0])
        if isinstance(error, (CancelledError, OSError)):
            what, fix = "the scheduler has ended", "start it, and the same command again"
        else:
            what = f"a worker failed with {type(error).__name__}: {error}"
            fix = "its log says more; without --on the work is done here"
        return ClusterError(what, where=self._address, fix=fix)


def check_address(address: str) -> None:
    """Raises UsageError where ``address`` does not name a scheduler."""
    if _ADDRESS.fullmatch(address) is None:
        raise UsageError(
            f"--on {address!r} does not name a scheduler",
            fix="write tcp://HOST:8786, or tls://HOST:8786 with Dask's settings of certificates",
        )


@contextmanager
def connected(address: str, *, connect_s: float = _CONNECT_S) -> Iterator[Cluster]:
    """The workers of the scheduler at ``address``, all of which have the versions of this process.

    Raises UsageError for another address or without Dask, ClusterError where nothing answers in
    ``connect_s``, where there is no worker, and where one of them has other versions.
    """
    check_address(address)
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "--on needs Dask, which is not installed", fix="pip install 'mansard[dask]'"
        ) from error
    _quieten()
    _check_greeting(address, connect_s, _tls_context(address))
    with refused_pickles() as refused:
        client = _client(Client, address, connect_s)
        try:
            _check_workers(client, address, connect_s)
            yield Cluster(client, address, refused)
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=5)


def _check_greeting(address: str, connect_s: float, context: ssl.SSLContext | None) -> None:
    """Raises ClusterError unless what answers speaks first as Dask does, in ``connect_s``.

    Dask waits forever for the greeting of whatever accepts a connection, and repeats a TLS
    handshake that was refused. Its greeting is the number of frames, their lengths, and the frames,
    of which the first are short.
    """
    host, _, port = address.partition("://")[2].rpartition(":")
    deadline_s = time.monotonic() + connect_s
    greeting = b""
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=connect_s) as plain:
            plain.settimeout(max(0.01, deadline_s - time.monotonic()))
            with plain if context is None else context.wrap_socket(plain) as stream:
                while len(greeting) < 16:
                    stream.settimeout(max(0.01, deadline_s - time.monotonic()))
                    data = stream.recv(16 - len(greeting))
                    if not data:
                        break
                    greeting += data
    except ssl.SSLError as error:
        raise _refused(error, address) from error
    except (OSError, OverflowError, ValueError) as error:
        if not greeting:
            raise _unreachable(address, connect_s) from error
    if not greeting:
        raise _unreachable(address, connect_s)
    n_frames, first_bytes = (int.from_bytes(greeting[at : at + 8], "little") for at in (0, 8))
    if len(greeting) < 16 or not 0 < n_frames <= _MOST_FRAMES or first_bytes > _MOST_FRAMES**3:
        raise ClusterError(
            "the program that answers is not a Dask scheduler",
            where=address,
            fix="give the address that 'dask scheduler' prints",
        )


def _client(make: Any, address: str, connect_s: float) -> Any:
    """A client of the scheduler, made by a thread: a peer that stops halfway would hold it."""
    made = queue.SimpleQueue[Any]()

    def connect() -> None:
        try:
            with warnings.catch_warnings():  # versions are checked later
                warnings.simplefilter("ignore")
                made.put(make(address, timeout=connect_s, set_as_default=False))
        except Exception as error:  # of sockets, of names, of certificates
            made.put(error)

    threading.Thread(target=connect, name="connecting", daemon=True).start()
    try:
        client = made.get(timeout=connect_s)
    except queue.Empty as error:
        raise _unreachable(address, connect_s) from error
    if isinstance(client, Exception):
        raise _unreachable(address, connect_s) from client
    return client


def _refused(error: ssl.SSLError, address: str) -> ClusterError:
    """The error of a peer that TLS refuses."""
    reason = getattr(error, "verify_message", None) or error.reason or str(error)
    return ClusterError(
        f"TLS refuses what answers: {reason.lower().replace('_', ' ')}",
        where=address,
        fix="give the scheduler a certificate of your authority, and start it with --tls-ca-file",
    )


def _quieten() -> None:
    """Dask logs to stderr what is raised here as one line, and what it mends by itself."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _tls_context(address: str) -> ssl.SSLContext | None:
    """Dask's TLS context, None for tcp://. Raises ClusterError without certificates."""
    from distributed.security import Security

    if not address.startswith("tls"):
        return None
    try:
        settings = cast(Any, Security)().get_connection_args("client")
    except OSError as error:
        what = f"certificates cannot be read: {error}"
    else:
        context: ssl.SSLContext | None = settings["ssl_context"]
        if context is not None:
            return context
        what = "no certificates are named"
    raise ClusterError(
        what,
        where=address,
        fix="Dask's settings name them: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and …__CLIENT__KEY",
    )


def _unreachable(address: str, connect_s: float) -> ClusterError:
    return ClusterError(
        f"no scheduler of Dask answered in {connect_s:g} s",
        where=address,
        fix="start one there with 'dask scheduler', and check the address and the firewall",
    )


def _check_workers(client: Any, address: str, connect_s: float) -> None:
    """Raises ClusterError where there is no worker, or one that is not like this process."""
    try:
        client.wait_for_workers(1, timeout=connect_s)
    except Exception as error:
        raise ClusterError(
            "the scheduler has no worker",
            where=address,
            fix=f"start some with 'dask worker {address}'",
        ) from error
    strangers = {}
    for worker, there in _asked_versions(client).items():
        if isinstance(there, Exception):
            strangers[worker] = f"has no Mansard {VERSION} ({_reason(there)})"
        elif there != versions():
            strangers[worker] = f"has {_differences(there)}"
    if strangers:
        shown = [f"{worker} {what}" for worker, what in list(strangers.items())[:_SHOWN]]
        more = f"; and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        raise ClusterError(
            f"{len(strangers)} of its workers are not like this process: {'; '.join(shown)}{more}",
            where=address,
            fix="install the same versions there: results must not depend on where work is done",
        )


def _asked_versions(client: Any) -> Mapping[str, Any]:
    """What each worker says of its versions, or the error instead."""
    try:
        answers: Mapping[str, Any] = client.run(versions, on_error="return")
    except RefusedPickle:  # one by one: which of them sent it
        answers = {}
        for worker in client.ncores():
            try:
                answers |= client.run(versions, workers=[worker], on_error="return")
            except RefusedPickle as error:
                answers |= {worker: error}
    return answers


def _reason(error: Exception) -> str:
    """The text of a worker's exception; none of one that came in a pickle, which is not read."""
    is_read = not isinstance(error, RefusedPickle) and not any(
        isinstance(argument, bytes) for argument in error.args
    )
    return str(error) if is_read else "it answers with an error that is not read"


def _hostile(address: str, name: str) -> ClusterError:
    return ClusterError(
        f"a worker sent a pickle that names {name}; nothing of it was run",
        where=address,
        fix="check who runs workers there, and use TLS",
    )


def _differences(there: Mapping[str, str]) -> str:
    """What a worker has, and what this process has instead."""
    here = versions()
    return ", ".join(
        f"{name} {there.get(name, 'of no version')} (here {own})"
        for name, own in here.items()
        if there.get(name) != own
    )


@cache
def versions() -> dict[str, str]:
    """What results depend on, in this process: versions, and the source of Mansard itself."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    found["mansard"] = f"{VERSION} of source {_source_hash()[:12]}"
    return found


def _source_hash() -> str:
    """Of all files of Mansard that Python finds: a version alone does not change with each edit."""
    import mansard

    files: dict[str, Path] = {}
    for folder in map(Path, mansard.__path__):
        for path in folder.rglob("*.py"):
            files.setdefault(path.relative_to(folder).as_posix(), path)
    return content_hash([[name, files[name].read_text("utf-8")] for name in sorted(files)])


@lru_cache(maxsize=1)
def _loaded(shared: bytes) -> Any:
    """On a worker: what all items share, once for all of them."""
    return pickle.loads(shared)  # noqa: S301 - by the process that checked this one


def _work(function: Function, sent: bytes, common: bytes, wanted: Mapping[str, str]) -> bytes:
    """On a worker: results, or the error that was raised. It may have come after the checks."""
    try:
        if versions() != wanted:
            raise ClusterError(
                "a worker that came later has other versions", fix="install the same versions there"
            )
        items: list[Any] = pickle.loads(sent)  # noqa: S301 - by the process that checked this one
        shared = _loaded(common)
        return encode([function(item, shared) for item in items])
    except MansardError as error:
        return encode(error)
    except Exception as error:  # as text: the caller unpickles no exceptions of other libraries
        return encode(
            ClusterError(
                f"a worker failed with {type(error).__name__}: {error}",
                fix="its log says more; without --on the work is done here",
            )
        )
