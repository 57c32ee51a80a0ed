"""Search for Pareto-optimal number formats."""
