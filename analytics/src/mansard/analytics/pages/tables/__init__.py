"""Tables that belong to no figure, one file a subject."""
