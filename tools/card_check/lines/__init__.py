"""From what the steps saw to lines of the table, one file for each kind of figure."""
