"""The report of a run, and the pages that `ch view` serves."""
