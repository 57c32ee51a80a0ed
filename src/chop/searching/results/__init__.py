"""What a search found: the front, files, plots and tables."""
