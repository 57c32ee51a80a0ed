"""The HTML page about a graph: its data, its rendering and its assets."""
