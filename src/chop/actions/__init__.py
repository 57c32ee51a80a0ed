"""What each command of `ch` does: one short file per command."""
