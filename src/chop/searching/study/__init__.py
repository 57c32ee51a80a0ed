"""Studies: the trials of a search, their storage, and the workers that run them."""
