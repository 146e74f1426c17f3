"""Made-up boards: a tree of files, and tools that answer as those of a Jetson do."""
