"""The areas of the fuzzer, one file each; `fuzz` explains how to add one."""
