"""The search for Pareto-optimal number formats: space, evaluation, strategies, study and results."""
