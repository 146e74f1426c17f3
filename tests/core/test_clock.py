"""Virtual time: it passes at once, and what falls due meanwhile happens in its order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mansard.core.clock import VirtualClock


def test_what_falls_due_happens_at_its_time_and_in_order() -> None:
    time = VirtualClock(10.0)
    seen: list[tuple[str, float]] = []
    end = time.every(0.4, lambda: seen.append(("a", round(time.now_s(), 9))))
    time.every(1.0, lambda: seen.append(("b", round(time.now_s(), 9))))
    time.sleep(1.0)
    assert seen == [("a", 10.4), ("a", 10.8), ("b", 11.0)]
    end()
    time.wait_until(12.0)
    assert seen[3:] == [("b", 12.0)]
    time.wait_until(11.0)  # over: nothing happens
    assert time.now_s() == 12.0


@given(st.lists(st.floats(0.0, 2.0), max_size=20))
def test_as_often_as_periods_pass(sleeps: list[float]) -> None:
    time, calls = VirtualClock(0.0), []
    time.every(0.25, lambda: calls.append(time.now_s()))  # exact in binary
    for duration_s in sleeps:
        time.sleep(duration_s)
    assert len(calls) == int(time.now_s() / 0.25)
