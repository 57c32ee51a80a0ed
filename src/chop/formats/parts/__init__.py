"""What formats are made of: their base class, grids, blocks, scales, rounding and gradients."""
