"""The commands. Nothing heavy is imported before the arguments are read."""
