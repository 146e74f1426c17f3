"""From raw repetitions to ceilings: what a machine can do at most."""
