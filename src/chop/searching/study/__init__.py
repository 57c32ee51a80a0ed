"""A study: its storage, its workers, and which trials are done."""
