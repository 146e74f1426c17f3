"""Processes of this machine as workers (``--jobs``)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from mansard.core.workers import Workers, WorkLost

# Processes are started anew: a forked one would share whatever threads hold.
_CONTEXT = multiprocessing.get_context("spawn")


class Processes(Workers):
    """``n_workers`` processes, each with a pipe of its own; one that is killed is started again.

    In a ``ProcessPoolExecutor`` all processes share one pipe and its lock. If one is killed while
    it writes, the other processes and the reader block forever.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._calls = SimpleQueue[Any]()
        self._started = threading.Lock()
        self._processes: list[Any] = []
        self._is_shut = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n_workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of ``function(*args, **kwargs)``, all of which can be pickled."""
        future = Future[Any]()
        self._calls.put((future, (function, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes, also those that work."""
        del cancel_futures  # they are
        with self._started:
            self._is_shut = True
            for process in self._processes:
                process.terminate()
        for _ in self._threads:
            self._calls.put(None)
        for each in (*self._processes, *self._threads) if wait else ():
            each.join()

    def _work(self) -> None:
        """One thread: gives calls to one process after the other."""
        pipe = None
        while (task := self._calls.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                pipe = pipe or self._start()
                pipe.send(call)
                result, error = pipe.recv()
            except (EOFError, OSError):  # the process was killed
                pipe, result, error = None, None, WorkLost()
            except Exception as refused:  # what cannot be pickled
                result, error = None, refused
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _start(self) -> Connection[Any, Any]:
        pipe, its_pipe = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(its_pipe,), daemon=True)
        with self._started:
            if self._is_shut:
                raise EOFError
            process.start()
            self._processes.append(process)
        its_pipe.close()  # the end of the process is then the end of the pipe
        return pipe


def _serve(pipe: Connection[Any, Any]) -> None:
    """Do calls until the pipe ends."""
    # Ctrl-C reaches the whole group; the first process alone acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the first process is gone
        while True:
            function, args, kwargs = pipe.recv()
            result, error = None, None
            try:
                result = function(*args, **kwargs)
            except Exception as raised:  # the first process raises it
                error = raised
            pipe.send((result, error))


def _leave_with_parent() -> None:
    """End when the first process is gone, for example killed: nothing else would end this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
