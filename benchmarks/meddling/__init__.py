"""Another program on a simulated board, and a log that an independent process keeps."""
