"""Work on other machines: a scheduler of Dask and its workers (docs/use/beyond-one-machine.md).

Dask distributes the work, repeats that of lost workers, and gathers the results, which are data
(``messages``). This file says which address may be used, checks that all sides have the same
versions, and turns failures into one line. Nothing else imports Dask, and this only where
``--dask`` is given.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from mansard.api.parallel.messages import RefusedPickle, decode, encode, refused_pickles
from mansard.core.errors import ClusterError, MansardError, UsageError
from mansard.core.extras import install_command
from mansard.core.hashing import content_hash
from mansard.core.version import VERSION
from mansard.core.workers import Shared, Workers, WorkLost

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:[0-9]{1,5}")
_CONNECT_S = 10.0  # until a scheduler answers, and until it has a worker
_ALONE_S = 60.0  # that there may be no worker, or no scheduler, later on: one is started again
_POLL_S = 0.5
_MOST_FRAMES = 64  # of a scheduler's first message, which is short
_PACKAGES = ("numpy", "polars", "msgspec", "numba", "distributed")
_SHOWN = 3  # workers in a message


class Cluster(Workers):
    """Workers of Dask that are like this process.

    Dask's own, ``Client.get_executor()``, has futures that never end where the client refuses to
    unpickle what a peer sent, or loses the scheduler while it fetches a result; and it gives what
    was unpickled, not data.
    """

    def __init__(self, client: Any, address: str, refused: Sequence[str] = ()) -> None:
        self._client, self._address = client, address
        self._refused = refused  # names in pickles of peers, as they come
        self._running: dict[Future[Any], Any] = {}  # with Dask's; what has none there is forgotten
        self._common: dict[int, tuple[Shared[Any], Any]] = {}
        self._ended = threading.Event()
        self.n_workers = self._count()
        threading.Thread(target=self._watch, name="watching", daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of ``function(*args, **kwargs)`` on some worker.

        Its exception is what ``function`` raises, ClusterError where the scheduler or all workers
        are gone, WorkLost where each worker that had the call ended.
        """
        common = {at: self._sent(arg) for at, arg in enumerate(args) if isinstance(arg, Shared)}
        rest = [None if at in common else arg for at, arg in enumerate(args)]
        # As bytes: Dask would look inside for futures, and cannot send every error.
        call = pickle.dumps((function, rest, kwargs))
        future = Future[Any]()
        future.set_running_or_notify_cancel()
        theirs = self._submit(_work, call, list(common), list(common.values()), versions())
        self._running[future] = theirs
        theirs.add_done_callback(lambda done: self._end(future, done))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what was sent and is not wanted any more."""
        del wait, cancel_futures
        self._ended.set()
        if self._running:
            with contextlib.suppress(Exception):
                self._client.cancel(list(self._running.values()), force=True)

    def _sent(self, shared: Shared[Any]) -> Any:
        """Dask's future of the pickle of ``shared``, which workers fetch once."""
        if id(shared) not in self._common:
            self._common[id(shared)] = shared, self._submit(bytes, pickle.dumps(shared))
        return self._common[id(shared)][1]

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"mansard-{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        with warnings.catch_warnings():  # that what is shared is large
            warnings.simplefilter("ignore", UserWarning)
            return self._client.submit(function, *arguments, key=key, pure=False)

    def _end(self, future: Future[Any], theirs: Any) -> None:
        """Hand over what came of a call; Dask calls this in a thread of its own."""
        from distributed.scheduler import KilledWorker

        try:
            result = decode(theirs.result())
        except KilledWorker:
            result = WorkLost()
        except Exception as error:
            result = self._explain(error)
            result.__cause__ = error
        self._settle(future, result)

    def _settle(self, future: Future[Any], result: Any) -> None:
        if self._running.pop(future, None) is None:
            return  # settled already
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _watch(self) -> None:
        """Fail what is open where no result can come any more."""
        alone_since: float | None = None
        while not self._ended.wait(_POLL_S):
            if self._refused:
                self._fail(_hostile(self._address, self._refused[0]))
            if n_workers := self._count():
                self.n_workers, alone_since = n_workers, None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _ALONE_S:
                what = f"it has had no worker for {_ALONE_S:.0f} s, or it ended"
                fix = "start workers with 'dask worker', and the same command again"
                self._fail(ClusterError(what, where=self._address, fix=fix))

    def _fail(self, error: ClusterError) -> None:
        for future in list(self._running):
            self._settle(future, error)

    def _count(self) -> int:
        """How many calls the workers that are there do at once; 0 without a scheduler too."""
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=_CONNECT_S)
        except Exception:  # whatever a connection that breaks raises
            return 0
        return sum(threads.values())

    def _explain(self, error: Exception) -> MansardError:
        """In one line what a worker or the scheduler failed with."""
        from distributed import CancelledError

        if isinstance(error, MansardError):
            return error
        if self._refused:
            return _hostile(self._address, self._refused[0])
        if isinstance(error, (CancelledError, OSError)):
            what, fix = "the scheduler has ended", "start it, and the same command again"
        else:
            what = f"a worker failed with {type(error).__name__}: {error}"
            fix = "its log says more; without --dask the work is done here"
        return ClusterError(what, where=self._address, fix=fix)


def check_address(address: str) -> None:
    """Raises UsageError where ``address`` does not name a scheduler."""
    if _ADDRESS.fullmatch(address) is None:
        raise UsageError(
            f"--dask {address!r} does not name a scheduler",
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
            "--dask needs Dask, which is not installed", fix=install_command("dask")
        ) from error
    _quieten()
    _check_greeting(address, connect_s, _tls_context(address))
    with refused_pickles() as refused:
        client = _client(Client, address, connect_s)
        try:
            _check_workers(client, address, connect_s)
            with Cluster(client, address, refused) as cluster:
                yield cluster
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
    unlike = {}
    for worker, there in _asked_versions(client).items():
        if isinstance(there, Exception):
            unlike[worker] = f"has no Mansard {VERSION} ({_reason(there)})"
        elif there != versions():
            unlike[worker] = f"has {_differences(there)}"
    if unlike:
        shown = [f"{worker} {what}" for worker, what in list(unlike.items())[:_SHOWN]]
        more = f"; and {len(unlike) - _SHOWN} more" if len(unlike) > _SHOWN else ""
        raise ClusterError(
            f"{len(unlike)} of its workers are not like this process: {'; '.join(shown)}{more}",
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
        f"a worker sent a pickle that names {name}; it was not run",
        where=address,
        fix="check who runs workers there, and use TLS",
    )


def _differences(there: Mapping[str, str]) -> str:
    """What a worker has, and what this process has instead."""
    here = versions()
    return ", ".join(
        f"{name} {there.get(name, 'of no version')} (here {here_version})"
        for name, here_version in here.items()
        if there.get(name) != here_version
    )


@cache
def versions() -> dict[str, str]:
    """What results depend on, in this process: versions, and the source of Mansard itself."""
    by_name = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = "absent"
    by_name["mansard"] = f"{VERSION} of source {_source_hash()[:12]}"
    return by_name


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
    """On a worker: what many calls share, once for all of them."""
    return pickle.loads(shared)  # noqa: S301 - by the process that checked this one


def _work(
    call: bytes, places: Sequence[int], common: Sequence[bytes], wanted: Mapping[str, str]
) -> bytes:
    """On a worker: the result, or the error that was raised. It may have come after the checks."""
    try:
        if versions() != wanted:
            raise ClusterError(
                "a worker that came later has other versions", fix="install the same versions there"
            )
        function, args, kwargs = pickle.loads(call)  # noqa: S301 - likewise
        for at, shared in zip(places, common, strict=True):
            args[at] = _loaded(shared)
        return encode(function(*args, **kwargs))
    except MansardError as error:
        return encode(error)
    except Exception as error:  # as text: the caller unpickles no exceptions of other libraries
        return encode(
            ClusterError(
                f"a worker failed with {type(error).__name__}: {error}",
                fix="its log says more; without --dask the work is done here",
            )
        )
