"""Readers of the files that others' tools write: one file for each tool's kind of file."""
