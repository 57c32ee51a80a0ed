"""The training engine: a short loop, and what surrounds it, on Lightning Fabric."""
