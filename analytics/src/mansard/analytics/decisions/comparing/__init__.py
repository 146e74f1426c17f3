"""What changed between two runs, and whether a change is larger than allowed."""
