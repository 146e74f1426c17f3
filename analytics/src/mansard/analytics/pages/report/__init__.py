"""Pages, tables and summaries for people."""
