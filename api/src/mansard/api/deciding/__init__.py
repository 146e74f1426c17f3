"""Predictions, and what is decided by them: modes, batches, plans, schedules, offloads."""
