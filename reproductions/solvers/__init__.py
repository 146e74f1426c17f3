"""What others do about schedules, to compare with: their models, solvers and fits."""
