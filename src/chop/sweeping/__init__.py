"""The same number format in all layers, for several formats and widths: one table, one plot."""
