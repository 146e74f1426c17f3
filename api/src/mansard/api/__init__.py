"""One function for each thing a person wants; they return records and frames, and print nothing.

    from mansard import api

    api.score([Path("resnet50.onnx")]).scores[0].layers
    api.bench(api.BenchRequest(mode="15W,MAXN"))
    api.recommend(api.PredictionRequest(runs=("runs",)), api.Wanted(max_latency_s=20e-3))

Notes, progress and questions go to a ``Reporter``; without one a function is silent, and
declines downloads. Errors are ``mansard.core.errors.MansardError``. Everything is imported on
first use; docs/use/python.md shows each function. Modules have plural names (``scores``): one that
is called like its function (``score``) would hide it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mansard.analytics.data.accuracies import NetworkAccuracy as NetworkAccuracy
    from mansard.analytics.data.opening import Merged as Merged
    from mansard.analytics.data.published.reference import write_reference as write_reference
    from mansard.analytics.data.quantities import MEASURE_MORE as MEASURE_MORE
    from mansard.analytics.data.quantities import capacity as capacity
    from mansard.analytics.data.quantities import digits as digits
    from mansard.analytics.data.quantities import fixed as fixed
    from mansard.analytics.data.quantities import is_wide as is_wide
    from mansard.analytics.data.quantities import joules as joules
    from mansard.analytics.data.quantities import percent as percent
    from mansard.analytics.data.quantities import quantity as quantity
    from mansard.analytics.data.quantities import rate as rate
    from mansard.analytics.data.quantities import relative as relative
    from mansard.analytics.data.quantities import seconds as seconds
    from mansard.analytics.data.quantities import watts as watts
    from mansard.analytics.decisions.compare import Change as Change
    from mansard.analytics.decisions.compare import Comparison as Comparison
    from mansard.analytics.decisions.offload.records import Amount as Amount
    from mansard.analytics.decisions.offload.records import Goal as Goal
    from mansard.analytics.decisions.offload.records import Hierarchical as Hierarchical
    from mansard.analytics.decisions.offload.records import HiPoint as HiPoint
    from mansard.analytics.decisions.offload.records import HiSettings as HiSettings
    from mansard.analytics.decisions.offload.records import Logistic as Logistic
    from mansard.analytics.decisions.offload.records import make_amount as make_amount
    from mansard.analytics.decisions.plan import Pick as Pick
    from mansard.analytics.decisions.plan import Plan as Plan
    from mansard.analytics.decisions.records import UNKNOWN_PRECISION as UNKNOWN_PRECISION
    from mansard.analytics.decisions.records import Candidate as Candidate
    from mansard.analytics.decisions.records import Recommendation as Recommendation
    from mansard.analytics.decisions.records import Wanted as Wanted
    from mansard.analytics.decisions.time_sharing import MixAnswer as MixAnswer
    from mansard.analytics.decisions.time_sharing import MixPlan as MixPlan
    from mansard.analytics.decisions.time_sharing import Share as Share
    from mansard.analytics.models.contention import VictimContention as VictimContention
    from mansard.analytics.models.counters.check import CheckedNetwork as CheckedNetwork
    from mansard.analytics.models.counters.check import CheckedPart as CheckedPart
    from mansard.analytics.models.counters.importing import ExportOrigin as ExportOrigin
    from mansard.analytics.models.predict.group_times import GroupTimes as GroupTimes
    from mansard.analytics.models.predict.measured import NetworkTimes as NetworkTimes
    from mansard.analytics.models.predict.measured import ProgramTimes as ProgramTimes
    from mansard.analytics.models.predict.memory_use import MemoryTraffic as MemoryTraffic
    from mansard.analytics.models.predict.parts import PartSum as PartSum
    from mansard.analytics.models.predict.parts import PartTimes as PartTimes
    from mansard.analytics.models.roofs.ceilings import Ceiling as Ceiling
    from mansard.analytics.pages.figures.tables import Table as Table
    from mansard.analytics.pages.figures.tables import sets_text as sets_text
    from mansard.analytics.pages.report.score_page import write_score_page as write_score_page
    from mansard.analytics.pages.report.summary import ModeSummary as ModeSummary
    from mansard.analytics.pages.report.summary import NetworkSummary as NetworkSummary
    from mansard.analytics.pages.report.summary import Summary as Summary
    from mansard.analytics.pages.tables.calibration import calibration_tables as calibration_tables
    from mansard.analytics.pages.tables.contention import contention_table as contention_table
    from mansard.analytics.pages.tables.contention import contention_words as contention_words
    from mansard.analytics.pages.tables.counters import call_words as call_words
    from mansard.analytics.pages.tables.counters import checked_table as checked_table
    from mansard.analytics.pages.tables.counters import checked_words as checked_words
    from mansard.analytics.pages.tables.counters import kernel_table as kernel_table
    from mansard.analytics.pages.tables.memory_traffic import memory_table as memory_table
    from mansard.analytics.pages.tables.parts import group_tables as group_tables
    from mansard.analytics.pages.tables.parts import part_tables as part_tables
    from mansard.analytics.pages.tables.schedules import method_table as method_table
    from mansard.analytics.pages.tables.schedules import network_table as network_table
    from mansard.analytics.pages.tables.schedules import segment_table as segment_table
    from mansard.analytics.pages.tables.workloads import accuracy_table as accuracy_table
    from mansard.analytics.pages.tables.workloads import network_tables as network_tables
    from mansard.analytics.pages.tables.workloads import program_table as program_table
    from mansard.analytics.pages.words.comparisons import change_of as change_of
    from mansard.analytics.pages.words.comparisons import saving_words as saving_words
    from mansard.analytics.pages.words.offload import POINT_COLUMNS as POINT_COLUMNS
    from mansard.analytics.pages.words.offload import point_cells as point_cells
    from mansard.analytics.pages.words.phrases import amount as amount
    from mansard.analytics.pages.words.schedules import in_rows as in_rows
    from mansard.analytics.pages.words.sentences import check_words as check_words
    from mansard.api.benches import BenchRequest as BenchRequest
    from mansard.api.benches import BenchResult as BenchResult
    from mansard.api.benches import bench as bench
    from mansard.api.benches import demo as demo
    from mansard.api.benches import demo_simulated as demo_simulated
    from mansard.api.benches import dry_run as dry_run
    from mansard.api.benches import measure_kernels as measure_kernels
    from mansard.api.boards import AvailableModes as AvailableModes
    from mansard.api.boards import doctor as doctor
    from mansard.api.boards import find_modes as find_modes
    from mansard.api.boards import modes as modes
    from mansard.api.boards import restore as restore
    from mansard.api.boards import restore_hosts as restore_hosts
    from mansard.api.checks import Check as Check
    from mansard.api.counters import CountedNetwork as CountedNetwork
    from mansard.api.counters import CountResult as CountResult
    from mansard.api.counters import ImportedExport as ImportedExport
    from mansard.api.counters import check_counters as check_counters
    from mansard.api.counters import count_networks as count_networks
    from mansard.api.counters import import_counters as import_counters
    from mansard.api.data import Compared as Compared
    from mansard.api.data import ImportedTable as ImportedTable
    from mansard.api.data import Report as Report
    from mansard.api.data import TableOrigin as TableOrigin
    from mansard.api.data import compare as compare
    from mansard.api.data import import_tables as import_tables
    from mansard.api.data import merge as merge
    from mansard.api.data import report as report
    from mansard.api.exporter import Exporter as Exporter
    from mansard.api.exporter import export_metrics as export_metrics
    from mansard.api.hierarchical import HiRequest as HiRequest
    from mansard.api.hierarchical import hi as hi
    from mansard.api.hierarchical import parse_amount as parse_amount
    from mansard.api.hierarchical import parse_logistic as parse_logistic
    from mansard.api.images import ImageList as ImageList
    from mansard.api.images import build_image as build_image
    from mansard.api.images import fit_image as fit_image
    from mansard.api.images import list_images as list_images
    from mansard.api.images import list_libraries as list_libraries
    from mansard.api.images import load_image as load_image
    from mansard.api.images import save_image as save_image
    from mansard.api.measurements import ContentionResult as ContentionResult
    from mansard.api.measurements import LayersResult as LayersResult
    from mansard.api.measurements import MeasuredMulti as MeasuredMulti
    from mansard.api.measurements import MeasuredNetwork as MeasuredNetwork
    from mansard.api.measurements import MeasuredProgram as MeasuredProgram
    from mansard.api.measurements import MeasureResult as MeasureResult
    from mansard.api.measurements import MultiResult as MultiResult
    from mansard.api.measurements import ProgramResult as ProgramResult
    from mansard.api.measurements import dry_run_contention as dry_run_contention
    from mansard.api.measurements import measure_contention as measure_contention
    from mansard.api.measurements import measure_layers as measure_layers
    from mansard.api.measurements import measure_networks as measure_networks
    from mansard.api.measurements import measure_program as measure_program
    from mansard.api.measurements import measured_contention as measured_contention
    from mansard.api.measurements import run_mappings as run_mappings
    from mansard.api.outputs import output_types as output_types
    from mansard.api.plans import PlanAnswer as PlanAnswer
    from mansard.api.plans import PlanRequest as PlanRequest
    from mansard.api.plans import plan as plan
    from mansard.api.plans import plan_each as plan_each
    from mansard.api.predictions import NetworkRequest as NetworkRequest
    from mansard.api.predictions import PredictionRequest as PredictionRequest
    from mansard.api.predictions import predict as predict
    from mansard.api.problem_files import read_problem as read_problem
    from mansard.api.problem_files import write_problem as write_problem
    from mansard.api.recommendations import AUTO_BATCHES as AUTO_BATCHES
    from mansard.api.recommendations import batch as batch
    from mansard.api.recommendations import recommend as recommend
    from mansard.api.recommendations import recommend_workload as recommend_workload
    from mansard.api.schedules import RanNetwork as RanNetwork
    from mansard.api.schedules import RanSchedule as RanSchedule
    from mansard.api.schedules import ScheduleAnswer as ScheduleAnswer
    from mansard.api.schedules import ScheduleRequest as ScheduleRequest
    from mansard.api.schedules import schedule as schedule
    from mansard.api.scores import Scores as Scores
    from mansard.api.scores import ZooNetwork as ZooNetwork
    from mansard.api.scores import encode_scores as encode_scores
    from mansard.api.scores import list_networks as list_networks
    from mansard.api.scores import score as score
    from mansard.api.scores import show_network as show_network
    from mansard.api.scores import write_networks as write_networks
    from mansard.api.watching import LIVE_INTERVAL_S as LIVE_INTERVAL_S
    from mansard.api.watching import LiveSummary as LiveSummary
    from mansard.api.watching import OnLine as OnLine
    from mansard.api.watching import SampleFile as SampleFile
    from mansard.api.watching import live_telemetry as live_telemetry
    from mansard.api.watching import read_samples as read_samples
    from mansard.api.watching import record_samples as record_samples
    from mansard.api.watching import telemetry as telemetry
    from mansard.api.watching import watch as watch
    from mansard.api.watching import write_lines as write_lines
    from mansard.api.windows import window as window
    from mansard.containers.fleet import Fleet as Fleet
    from mansard.containers.images.pulling import LIBRARIES_BYTES as LIBRARIES_BYTES
    from mansard.core.precision import parse_precision as parse_precision
    from mansard.device.power_modes.listing import ListedMode as ListedMode
    from mansard.device.power_modes.listing import Listing as Listing
    from mansard.device.tegrastats import TegrastatsSample as TegrastatsSample
    from mansard.device.tegrastats.columns import FieldSummary as FieldSummary
    from mansard.device.tegrastats.columns import Utilisation as Utilisation
    from mansard.device.tegrastats.rows import clean as clean
    from mansard.device.tegrastats.rows import line_document as line_document
    from mansard.device.tegrastats.summary import LogSummary as LogSummary
    from mansard.estimator import Given as Given
    from mansard.estimator import Settings as Settings
    from mansard.estimator import Totals as Totals
    from mansard.estimator import is_functional as is_functional
    from mansard.estimator import totals as totals
    from mansard.estimator.export import ExportCheck as ExportCheck
    from mansard.estimator.export import Exported as Exported
    from mansard.estimator.export import ExportRequest as ExportRequest
    from mansard.estimator.export import export as export
    from mansard.estimator.export.request import parse_dynamic as parse_dynamic
    from mansard.estimator.export.request import parse_input as parse_input
    from mansard.estimator.export.request import parse_settings as parse_settings
    from mansard.estimator.summary import differing_dimensions as differing_dimensions
    from mansard.estimator.zoo import Entry as Entry
    from mansard.inference.multi.mappings import MappedNetwork as MappedNetwork
    from mansard.inference.multi.mappings import Mapping as Mapping
    from mansard.inference.multi.mappings import StagePlace as StagePlace
    from mansard.inference.multi.mappings import read_mappings as read_mappings
    from mansard.inference.plan import BuildSettings as BuildSettings
    from mansard.microbench.catalog import find_kernel as find_kernel
    from mansard.scheduler.rescheduling import NetworkState as NetworkState
    from mansard.scheduler.rescheduling import Rescheduled as Rescheduled
    from mansard.scheduler.rescheduling import reschedule as reschedule
    from mansard.sweeps.accuracies import AccuracySettings as AccuracySettings
    from mansard.sweeps.counters import CountRequest as CountRequest
    from mansard.sweeps.layers import LayerSettings as LayerSettings
    from mansard.sweeps.layers import parse_cpus as parse_cpus
    from mansard.sweeps.layers import parse_each_layer as parse_each_layer
    from mansard.sweeps.mappings import MultiRequest as MultiRequest
    from mansard.sweeps.mappings import whole_mapping as whole_mapping
    from mansard.sweeps.networks import MeasureRequest as MeasureRequest
    from mansard.sweeps.preparation import NetworkSettings as NetworkSettings
    from mansard.sweeps.programs import ProgramRequest as ProgramRequest
    from mansard.sweeps.reporter import SILENT as SILENT
    from mansard.sweeps.reporter import LineProgress as LineProgress
    from mansard.sweeps.reporter import ProgressDisplay as ProgressDisplay
    from mansard.sweeps.reporter import Reporter as Reporter
    from mansard.sweeps.reporter import SilentReporter as SilentReporter
    from mansard.sweeps.reporter import format_duration as format_duration
    from mansard.sweeps.stages import MultiSettings as MultiSettings
    from mansard.sweeps.sweep import DryRun as DryRun
    from mansard.sweeps.sweep import SweepRequest as SweepRequest
    from mansard.sweeps.targets import WantedImage as WantedImage


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Module and name of everything that the block above imports, read from its source."""
    import re
    from pathlib import Path

    source = Path(__file__).read_text(encoding="utf-8")
    lines = re.findall(r"^    from (\S+) import (\S+) as (\S+)$", source, re.MULTILINE)
    return {alias: (module, name) for module, name, alias in lines}


if not TYPE_CHECKING:  # else a misspelt name would be of any type

    def __getattr__(name: str) -> Any:
        """Import on first use: a command that lists power modes must start without polars."""
        if name.startswith("_") or name not in _homes():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, original = _homes()[name]
        found = getattr(import_module(module), original)
        if isfunction(found):
            from mansard.api.arguments import checked

            found = checked(found)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """What there is, imported yet or not."""
    return sorted(_homes())
