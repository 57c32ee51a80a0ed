"""Layers: the quantised layers and calls."""
