"""What is decided, in sentences: facts come in from the decisions below, words go out."""
