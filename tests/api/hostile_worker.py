"""A preload of Dask's workers that makes one hostile: ``HOSTILE`` says what it answers with.

Each answer holds a pickle that appends the number of the process that unpickles it to ``RAN_IN``.
"""

from __future__ import annotations

import builtins
import copyreg
import os
import pickle
from typing import Any


def acting() -> tuple[Any, tuple[str]]:
    """What a pickle calls, and with which argument."""
    path = os.environ["RAN_IN"]
    return builtins.exec, (f"import os\nwith open({path!r}, 'a') as f: print(os.getpid(), file=f)",)


class Acting:
    """Its pickle acts."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return acting()


def as_bytes() -> Any:
    return pickle.dumps(Acting())


def as_object() -> Any:
    return Acting()


def as_array() -> Any:
    import numpy as np

    array = np.empty(1, object)
    array[0] = Acting()
    return array


def as_type() -> Any:
    class Meta(type):
        pass

    copyreg.pickle(Meta, lambda _: acting())
    return Meta("Bytes", (bytes,), {})(b"\x90")


def as_error() -> Any:
    raise ValueError(Acting())


def as_warning() -> Any:
    from distributed import get_worker

    get_worker().log_event("warn", {"message": pickle.dumps(Acting())})
    return b"\x90"


ANSWERS = {
    made.__name__: made for made in (as_bytes, as_object, as_array, as_type, as_error, as_warning)
}


def dask_setup(worker: object) -> None:
    """What Dask calls when the worker starts."""
    del worker
    from mansard.api.parallel import cluster

    answer = os.environ["HOSTILE"]
    if answer == "versions":
        cluster.versions = Acting  # type: ignore[assignment]
    else:
        made = ANSWERS[answer]
        cluster._work = lambda *_: made()
