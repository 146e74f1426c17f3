"""Commands about runs, tables and logs."""
