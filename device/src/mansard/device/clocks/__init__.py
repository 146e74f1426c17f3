"""The clocks of a machine: found, locked and read back through sysfs."""
