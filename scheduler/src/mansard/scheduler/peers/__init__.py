"""What others do, reproduced to be compared with: their fits, models and solvers."""
