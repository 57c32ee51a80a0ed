"""Run passes on a model, evaluate it before and after, and keep the result in a run folder."""
