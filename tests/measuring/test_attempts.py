"""Rows that are not known well are measured again: all are kept, and the best one counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.core.hashing import content_hash
from mansard.core.records import Record, Schema, doubts, quality
from mansard.core.storage.jsonl import read_rows
from mansard.measuring.attempts import FILE, MOST_ATTEMPTS, doubtful_trials
from mansard.measuring.instruments import Instruments
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.runner import RunOutcome, missing_trials, run_plan
from tests.measuring.made_up_room import NapPlan
from tests.measuring.test_made_up_room import nap_plan


class Weighing(PlannedTrial, frozen=True, kw_only=True):
    """Something to be weighed."""

    thing: str

    @property
    def title(self) -> str:
        return self.thing


class WeighingPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of weighings."""

    schema: ClassVar[Schema] = Schema("weighing-plan", 1)
    kind: ClassVar[str] = "tests.measuring.test_attempts:WEIGHINGS"
    trials: tuple[Weighing, ...]


class WeighingRow(Record, frozen=True, kw_only=True):
    """What something weighs, with the fields that say how well it is known."""

    schema: ClassVar[Schema] = Schema("weighing", 1)
    run_id: str
    trial_id: str
    weight: float
    failure: str = ""
    disturbances: tuple[str, ...] = ()
    stability: str = "stable"
    stability_interval: float | None = 0.01


@contextmanager
def _open(plan: WeighingPlan) -> Iterator[Opened[WeighingRow]]:
    del plan
    yield Opened(lambda *_: row(0.0), None, "a scale is brought along")


WEIGHINGS = MeasurementKind(
    "weighings", WeighingPlan, WeighingRow, _open, is_result=lambda row: not row.failure
)


def scale(*rows: WeighingRow) -> LocalMeasurer:
    """A measurer that answers each weighing with the next of ``rows``."""
    answers = list(rows)

    @contextmanager
    def opened(plan: WeighingPlan) -> Iterator[Opened[WeighingRow]]:
        def measure(trial: Weighing, _: Instruments) -> WeighingRow:
            return replace(answers.pop(0), run_id=plan.run_id, trial_id=trial.trial_id)

        yield Opened(measure, None, "a scale needs no GPU")

    return LocalMeasurer(kind=replace_kind(opened))


def replace_kind(opened: object) -> MeasurementKind[WeighingPlan, WeighingRow]:
    return MeasurementKind(
        "weighings",
        WeighingPlan,
        WeighingRow,
        opened,  # type: ignore[arg-type]
        is_result=lambda row: not row.failure,
    )


def row(weight: float, **known: Any) -> WeighingRow:
    unknown = {"stability_interval": "3 samples are too few"}
    is_known = known.get("stability_interval", 0.01) is not None
    return WeighingRow(
        run_id="", trial_id="", weight=weight, unknown={} if is_known else unknown, **known
    )


def plan(*things: str) -> WeighingPlan:
    nap = nap_plan()
    fields = {name: getattr(nap, name) for name in RunPlan.__struct_fields__ if name != "trials"}
    return WeighingPlan(**fields, trials=tuple(Weighing(thing=thing) for thing in things))


def again(planned: WeighingPlan, runs: Path, *rows: WeighingRow) -> RunOutcome:
    return run_plan(planned, runs, measurer=scale(*rows), again=doubtful_trials(planned, runs))


def weights(runs: Path, name: str = "trials.jsonl") -> list[float]:
    (path,) = runs.glob(f"*/{name}")
    return [row.weight for row in read_rows(path, WeighingRow).rows]


DISTURBED = ("another program ran",)


def test_a_better_row_takes_the_place_of_the_first_and_both_are_kept(tmp_path: Path) -> None:
    planned = plan("apple", "pear")
    run_plan(planned, tmp_path, measurer=scale(row(1.0, disturbances=DISTURBED), row(2.0)))
    assert [*doubtful_trials(planned, tmp_path).values()] == ["disturbed: another program ran"]
    outcome = again(planned, tmp_path, row(1.5))
    assert (outcome.n_measured, outcome.n_resumed, outcome.n_improved) == (1, 1, 1)
    assert weights(tmp_path) == [1.5, 2.0]
    assert weights(tmp_path, FILE) == [1.0, 1.5]
    assert doubtful_trials(planned, tmp_path) == {}
    assert missing_trials(planned, tmp_path) == ()


def test_a_disturbed_newer_row_never_displaces_a_better_one(tmp_path: Path) -> None:
    planned = plan("apple")
    run_plan(planned, tmp_path, measurer=scale(row(1.0, stability="unstable")))
    outcome = again(planned, tmp_path, row(9.0, disturbances=DISTURBED))
    assert (outcome.n_measured, outcome.n_improved) == (1, 0)
    assert weights(tmp_path) == [1.0]
    assert weights(tmp_path, FILE) == [1.0, 9.0]


def test_it_ends_after_some_attempts_with_the_narrowest(tmp_path: Path) -> None:
    planned = plan("apple")
    unstable = [
        row(weight, stability="unstable", stability_interval=interval)
        for weight, interval in ((1.0, 0.3), (2.0, 0.1), (3.0, 0.2))
    ]
    run_plan(planned, tmp_path, measurer=scale(unstable[0]))
    for one in unstable[1:]:
        assert doubtful_trials(planned, tmp_path)
        again(planned, tmp_path, one)
    assert len(weights(tmp_path, FILE)) == MOST_ATTEMPTS == 3
    assert doubtful_trials(planned, tmp_path) == {}
    assert weights(tmp_path) == [2.0]


def test_a_killed_process_loses_neither_row(tmp_path: Path) -> None:
    planned = plan("apple", "pear")
    first = [row(1.0, stability="unstable"), row(2.0, stability="unstable")]
    run_plan(planned, tmp_path, measurer=scale(*first))

    def measure_one_and_die(job: object) -> Iterator[object]:
        events = scale(row(1.1), row(2.2))(job)  # type: ignore[arg-type]
        for event in events:
            yield event
            if type(event).__name__ == "Row":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(
            planned,
            tmp_path,
            measurer=measure_one_and_die,  # type: ignore[arg-type]
            again=doubtful_trials(planned, tmp_path),
        )
    assert weights(tmp_path, FILE) == [1.0, 2.0, 1.1]
    # The next command lets the better row count, and measures the other.
    again(planned, tmp_path, row(1.2), row(2.2))
    assert weights(tmp_path) == [1.2, 2.2]


def test_a_number_of_runs_that_was_asked_for_is_not_too_small(tmp_path: Path) -> None:
    planned = plan("apple", "pear")
    planned = replace(planned, protocol=replace(planned.protocol, time_cap_s=0.0))
    rows = row(1.0, stability="unstable"), row(2.0, stability="unstable", disturbances=DISTURBED)
    run_plan(planned, tmp_path, measurer=scale(*rows))
    assert [*doubtful_trials(planned, tmp_path).values()] == ["disturbed: another program ran"]


def test_doubts_in_words() -> None:
    assert doubts(row(1.0)) == ()
    assert doubts(row(1.0, stability="unstable", stability_interval=0.063)) == (
        "unstable: half-width of its interval 6.3%",
    )
    few = row(1.0, stability="unstable", stability_interval=None, disturbances=DISTURBED)
    assert doubts(few) == ("disturbed: another program ran", "unstable: 3 samples are too few")
    # A failure is no row that is badly known: its kind says whether it is tried again.
    assert doubts(row(1.0, failure="no memory", stability="unstable")) == ()


_ROWS = st.builds(
    row,
    st.just(1.0),
    failure=st.sampled_from(["", "no memory"]),
    disturbances=st.sampled_from([(), DISTURBED]),
    stability=st.sampled_from(["stable", "unstable"]),
    stability_interval=st.one_of(st.none(), st.floats(0, 10)),
)


@given(st.lists(_ROWS, min_size=1, max_size=6))
def test_the_best_row_has_the_fewest_faults(rows: Sequence[WeighingRow]) -> None:
    best = max(rows, key=quality)
    if any(not doubts(one) and not one.failure for one in rows):
        assert not doubts(best)
        assert not best.failure
    if any(not one.failure for one in rows):
        assert not best.failure


def test_empty_labels_repeats_and_variables_leave_the_ids_as_they_were() -> None:
    planned: NapPlan = nap_plan()
    # Of the fields that there were before labels: trials, protocol and seed.
    assert planned.plan_hash == content_hash([planned.trials, planned.protocol, planned.seed])
    others = [
        replace(planned, label="v2"),
        replace(planned, label="v3"),
        replace(planned, repeat=1),
        replace(planned, environment={"OMP_NUM_THREADS": "1"}),
        replace(planned, environment={"OMP_NUM_THREADS": "2"}),
    ]
    assert len({one.run_id for one in (planned, *others)}) == 6
