"""Programs that are started, the lines that go between processes, and the signals that end them."""
