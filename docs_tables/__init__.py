"""The generated tables in docs/; `make docs` updates them."""
