"""Images that containers measure in: the table, building, pulling, keeping, fitting."""
