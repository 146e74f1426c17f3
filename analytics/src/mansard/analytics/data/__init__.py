"""A folder of runs as typed frames, read and checked."""
