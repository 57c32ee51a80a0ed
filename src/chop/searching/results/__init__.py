"""Results of a search: the front, files, the plot, and what the terminal shows."""
