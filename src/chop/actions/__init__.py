"""What `ch` can do: one file an action; their options are in `config`, which needs no torch."""
