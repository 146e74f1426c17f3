"""Networks' layer groups and accelerators go in, a provably best schedule comes out."""

from mansard.scheduler.search import check as check
from mansard.scheduler.search import evaluate as evaluate
from mansard.scheduler.search import prepare as prepare
from mansard.scheduler.search import solve as solve
