"""What the user names with ``--runs``, as one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.ingest import update_dataset
from mansard.analytics.data.joining import join
from mansard.analytics.data.mixing import mixed, unmixed
from mansard.analytics.data.newest import newest
from mansard.analytics.data.read import Part, read_filled_part
from mansard.analytics.data.sources import MANIFEST
from mansard.analytics.data.store import is_url
from mansard.core.errors import InputError


def open_runs(
    places: Sequence[str | Path], *, mix: bool = False, newest_only: bool = False
) -> Dataset:
    """All runs of ``places``: folders of runs, datasets that were merged, URLs of such.

    There is at least one. A folder of runs is ingested first. Runs of one device by different
    versions of Mansard, or from different sources of a kernel, raise InputError unless ``mix``,
    which also takes boards that are alike for one, or ``newest_only``, which leaves out what does
    not go with the newest run of a device. Raises what ``ingest`` and ``join`` raise.
    """
    parts = [open_part(str(place)) for place in dict.fromkeys(str(place) for place in places)]
    dataset = newest(join(parts)) if newest_only else join(parts)
    return mixed(dataset) if mix else unmixed(dataset)


def open_part(place: str) -> Part:
    """One place; a folder of runs is ingested, anything else has to hold a dataset."""
    if not is_url(place):
        if not holds_dataset(Path(place)):
            return update_dataset(Path(place))
        if holds_runs(Path(place)):
            raise InputError(
                "holds a dataset and folders of runs beside it",
                where=place,
                fix="move the runs into a folder of their own",
            )
    return read_filled_part(place)


def holds_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset itself, as ``mansard merge`` writes one."""
    return any((folder / "runs").glob("run_id=*/*.parquet"))


def holds_runs(folder: Path) -> bool:
    """Whether there are folders of runs in it, as ``mansard bench`` makes them."""
    return any(folder.glob(f"*/{MANIFEST}"))
