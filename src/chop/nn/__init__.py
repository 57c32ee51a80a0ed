"""Layers of our own."""
