"""What every measurement of a board shares: where, in which modes, of what; one planner a kind."""
