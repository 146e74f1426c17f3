"""Whether measurements can be true: contradictions, impossible values, unsettled trials."""
