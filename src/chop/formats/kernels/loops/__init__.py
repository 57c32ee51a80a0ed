"""The sources of the compiled loops, one file per family. Only `chop.formats.kernels.compiler` imports them."""
