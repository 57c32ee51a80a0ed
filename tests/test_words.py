"""Prose in the source and the documentation is plain English: some phrases must not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "src").rglob("assets/*.js")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "configs").rglob("*.toml")),
]
PHRASES = {
    r"\b(is|are|was|were|be|been) told\b": "is reported, is known",
    r"\btells\b(?! apart)": "says, shows, returns",
    r"(?<![Tt]here )\bis no (?!longer\b|more\b|[a-z]+ (left|yet))[a-z]+": "is not a ...",
    r"nothing else beats|that none beats": "Pareto-optimal",
    r"\bthe way of an?\b": "data flow, how ... works",
    r"\bbits? an? (element|number|weight)\b": "bits per element",
    r"\bof so many\b|\bso many (rows|bits|points|seconds|steps)\b": "this many, N",
    r"\bgoes on\b|\bgo on\b": "continues, resumes",
    r"\bdamaged\b": "corrupt",
    r"\bdearest\b|\bdearer\b": "most expensive",
    r"\banew\b": "again",
    r"\bfresh weights\b": "untrained weights",
    r"\bpull of the weights\b": "weight decay",
    r"\ba line an?\b|\bone file an?\b": "one ... per ...",
    r"\bwhat one has to\b": "what to",
    r", did you mean|, \{closest\(": "; did you mean ...?, ; {closest(...)}",
}


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    return {file: file.read_text(encoding="utf-8") for file in FILES}


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_is_not_used(phrase: str, texts: dict[Path, str]) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for file, text in texts.items()
        for match in re.finditer(phrase, text)
    ]
    assert found == [], f"write: {PHRASES[phrase]}"
