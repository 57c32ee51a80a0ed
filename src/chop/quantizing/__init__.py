"""Quantised copies of models in memory: made, compared, saved and opened again."""
