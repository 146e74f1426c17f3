"""One function for each thing a person wants; returns records and frames, prints nothing."""
