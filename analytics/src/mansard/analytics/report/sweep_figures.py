"""The figures of the sweeps: the staircase of memory and the chains of arithmetic."""

from __future__ import annotations

from mansard.analytics.charts import sweep_data, sweep_rules
from mansard.analytics.charts import sweeps as charts
from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.data.names import in_order
from mansard.analytics.report import figure_tables
from mansard.analytics.report.figures import Figure, make_figure, sweep_notes
from mansard.analytics.results import Results


def staircase_figure(results: Results, chosen: Chosen) -> Figure | None:
    """Bandwidth over the working set; None where no stream was timed."""
    found = sweep_data.staircase(results.rates, results.labels())
    if found.frame.is_empty():
        return None
    caches = sweep_rules.cache_rules(results.roofs)
    largest = max(found.frame["working_set_bytes"].to_list(), default=2.0**30)
    smallest = min(found.frame["working_set_bytes"].to_list(), default=2.0**12)
    rates = found.frame["rate"].to_list() or [1.0, 10.0]
    window = (smallest / 1.3, largest * 1.3, min(rates) / 1.6, max(rates) * 1.7)
    steps = sweep_rules.ceiling_steps(results.roofs, window[0], window[1])
    kernels = sweep_data.series_order(found.frame["kernel"].to_list())
    chart = charts.staircase_chart(found.frame, caches, steps, chosen, kernels, window)
    notes = sweep_notes(found)
    return make_figure("staircase", chart, figure_tables.staircase_points(found.frame), notes)


def chain_figure(results: Results, chosen: Chosen) -> Figure | None:
    """FLOP/s over the length of the FMA chain; None where no chain was timed."""
    found = sweep_data.chains(results.rates, results.labels())
    if found.frame.is_empty():
        return None
    precisions = in_order(found.frame["precision"].to_list())
    highest = max(found.frame["rate"].to_list(), default=1.0) * 1.15
    peaks = sweep_rules.peak_rules(results.roofs)
    chart = charts.chain_chart(found.frame, peaks, chosen, precisions, highest)
    notes = sweep_notes(found)
    return make_figure("chains", chart, figure_tables.chain_points(found.frame), notes)
