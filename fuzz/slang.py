"""`python slang.py FILE ...`: elaborates SystemVerilog files together with slang, and prints its errors."""

from __future__ import annotations

import sys

from pyslang import DiagnosticEngine
from pyslang.ast import Compilation
from pyslang.syntax import SyntaxTree

if __name__ == "__main__":
    compilation = Compilation()
    for path in sys.argv[1:]:
        compilation.addSyntaxTree(SyntaxTree.fromFile(path))
    errors = [each for each in compilation.getAllDiagnostics() if each.isError()]
    print(DiagnosticEngine.reportAll(SyntaxTree.getDefaultSourceManager(), errors), end="")
