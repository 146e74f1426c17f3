"""Runs commands in processes forked from one that has imported everything.

To import NumPy, Polars and Altair takes a command longer than most of its work. The programs
``mansard`` and ``page-python`` that ``install`` writes hand their words, folder, environment and
streams to this process, wait for the fork, and end as it ends.

A client sends {"words", "folder", "environment"} and its three streams, gets the fork's process
id, then its wait status.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NoReturn, TextIO

LOG = "commands.jsonl"  # one row for each command that ended
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG: a session that is killed leaves no server
_CLIENT = """\
#!{python} -IS
import json, os, signal, socket, struct, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
said = {{"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(server, [struct.pack("=I", len(json.dumps(said)))], [0, 1, 2])
server.sendall(json.dumps(said).encode())
(fork,) = struct.unpack("=i", server.recv(4, socket.MSG_WAITALL))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda given, _: os.kill(fork, given))
(status,) = struct.unpack("=i", server.recv(4, socket.MSG_WAITALL))
if os.WIFSIGNALED(status):
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.WEXITSTATUS(status))
"""


def install(folder: Path, address: Path) -> None:
    """Write the programs of the server at ``address`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("mansard", "page-python"):
        program = folder / name
        program.write_text(_CLIENT.format(python=sys.executable, address=str(address)), "utf-8")
        program.chmod(0o755)


def serve(address: Path) -> NoReturn:
    """Import everything, then fork for each connection until the process is ended."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGTERM)
    _import_all()
    gc.freeze()  # what is imported is not looked at again, and so not copied
    # BLAS has threads of its own, and looks after them when a process forks.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(address))
    listening.listen(16)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that end are gone at once
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(connection, address.parent / LOG)
        connection.close()


def _import_all() -> None:
    """All but onnxruntime, whose threads a fork would wait for at its end."""
    import altair  # noqa: F401
    import onnx  # noqa: F401
    import polars  # noqa: F401
    import scipy.optimize  # noqa: F401
    import vl_convert  # noqa: F401

    from mansard import api
    from mansard.cli.app import make_app

    for name in dir(api):
        getattr(api, name)
    make_app()


def _keep(connection: socket.socket, log: Path) -> NoReturn:
    """Fork the command of one connection, wait for it, and tell how it ended."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    said = json.loads(connection.recv(struct.unpack("=I", head)[0], socket.MSG_WAITALL))
    start_s = time.perf_counter()
    fork = os.fork()
    if fork == 0:
        connection.close()
        _become(said, streams)
    connection.sendall(struct.pack("=i", fork))
    _, status, used = os.wait4(fork, 0)
    row = {
        "folder": said["folder"],
        "words": said["words"],
        "exit_code": os.waitstatus_to_exitcode(status),
        "time_s": time.perf_counter() - start_s,
        "cpu_s": used.ru_utime + used.ru_stime,
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack("=i", status))
    os._exit(0)


def _become(said: dict[str, Any], streams: list[int]) -> NoReturn:
    """The command itself: its streams, folder and environment, then ``main``."""
    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    os.chdir(said["folder"])
    os.environ.clear()
    os.environ.update(said["environment"])
    sys.stdin, sys.stdout, sys.stderr = (_stream(0, "r"), _stream(1, "w"), _stream(2, "w"))
    program, *sys.argv[1:] = said["words"]
    sys.argv[0] = program
    code: object = 1
    try:
        if program == "page-python":
            _run_blocks()
        from mansard.cli.__main__ import main

        main()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # An interpreter's end would take all that was imported apart again, for 0.2 s.
    os._exit(code if isinstance(code, int) else int(code is not None))


def _stream(number: int, mode: str) -> TextIO:
    return io.TextIOWrapper(
        open(number, f"{mode}b", closefd=False), encoding="utf-8", line_buffering=number == 2
    )


def _run_blocks() -> NoReturn:
    """Run each file that a line of stdin names, in one namespace; tell its exit code on stdout."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        path, board = line.rstrip("\n").split("\t")
        os.environ.pop("MANSARD_BOARD", None)
        if board:
            os.environ["MANSARD_BOARD"] = board
        code = 0
        try:
            exec(compile(Path(path).read_text("utf-8"), path, "exec"), names)  # noqa: S102
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stdout.flush()
        told.write(f"{code}\n")
        told.flush()
    sys.exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
