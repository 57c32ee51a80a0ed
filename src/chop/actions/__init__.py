"""Commands of `ch` that do more than to call one function: one short file per command."""
