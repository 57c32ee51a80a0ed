"""The training engine: a short loop on Lightning Fabric, and what it needs, one idea a file."""
