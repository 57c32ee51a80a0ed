"""Shared by all passes that set number formats: which config a node is given, and what replaces the node."""
