"""A fuzzer: random cases for each area of the package, with a seed and a time limit.

`python -m fuzz --seconds 300 --seed 7 configurations` draws cases until the time is over and checks each of them. A
case that fails is written as a test file, ready to run with pytest and to move to `tests/`.

To add an area, add one file to `fuzz/areas/`; it is found by its name. The file has two functions:

    def draw(random: Random) -> Case:              # plain data: dicts, lists, strings, bytes, numbers
    def check(case: Case, folder: Path) -> None:   # raises an error if a promise is broken

`draw` takes all its randomness from `random`. Its result must be plain data, because the test of a failing case
contains it as a literal. `check` runs with the empty `folder` as current folder, which is deleted afterwards. Any
error that it raises is a failure, and so is a case that takes longer than TIME_LIMIT seconds, a constant of the
file (default: 30). Cases run in a child process: one that ends it, for example by a segmentation fault, is a
failure too, and another process continues. A function `prepare()`, if the file has one, is called once per process.
`tests/test_fuzz.py` runs a few cases of each area with a fixed seed.
"""
