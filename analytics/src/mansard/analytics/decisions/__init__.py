"""From predictions to decisions: which mode, which batch, which schedule, and what changed."""
