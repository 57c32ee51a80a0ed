"""The HTML file: what is embedded in it, and that nothing in it can run or load anything else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from chop.page.render import LIBRARIES, SCRIPTS, embedded, render
from chop.passes.graph import report_html_analysis_pass
from samples import annotated

ASSETS = files("chop.page").joinpath("assets")


def write_page(tmp_path: Path, **args: Any) -> dict[str, Any]:
    """Write the report of a small graph and return its document."""
    graph = annotated(nn.Sequential(nn.ReLU()), input=torch.ones(1, 2))
    _, info = report_html_analysis_pass(graph, {"path": tmp_path / "report.html", **args})
    document: dict[str, Any] = info["document"]
    return document


class PageParser(HTMLParser):
    """A parser that collects the texts of all scripts and styles as a browser separates them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: str | None = None
        self.found: list[tuple[str, str]] = []
        self.policy = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style"):
            self.open = tag
            self.found.append((given.get("type") or tag, ""))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        assert "src" not in given
        assert given.get("href") in (None, "#layers", "data:,")

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open:
            kind, text = self.found[-1]
            self.found[-1] = kind, text + data


EVIL = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \u2028 $title"


def test_no_name_breaks_out_of_the_page(tmp_path: Path) -> None:
    document = write_page(tmp_path, title=EVIL)
    page = (tmp_path / "report.html").read_text()
    parts = PageParser(page)
    assert [kind for kind, _ in parts.found] == ["style", "application/json", "script"]
    assert json.loads(parts.found[1][1])["title"] == document["title"] == EVIL
    assert "<img" not in page
    assert "<script>alert" not in page


def test_the_policy_allows_only_the_embedded_script_and_style(tmp_path: Path) -> None:
    write_page(tmp_path)
    parts = PageParser((tmp_path / "report.html").read_text())
    digests = {
        kind: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in parts.found
    }
    assert parts.policy == (
        f"default-src 'none'; script-src '{digests['script']}'; style-src '{digests['style']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "sourceMappingURL" not in parts.found[2][1]


def test_third_party_licences_are_in_the_page(tmp_path: Path) -> None:
    write_page(tmp_path)
    page = (tmp_path / "report.html").read_text()
    for licence in LIBRARIES.values():
        text = ASSETS.joinpath(licence).read_text()
        assert "Permission is hereby granted" in text
        assert text in page


def test_third_party_files_are_unchanged() -> None:
    lines = ASSETS.joinpath("vendor/SOURCES.txt").read_text().splitlines()
    listed = {name: digest for digest, name, _ in (line.split("  ") for line in lines)}
    for name in listed:
        content = ASSETS.joinpath("vendor", name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == listed[name], name
    assert {file.name for file in ASSETS.joinpath("vendor").iterdir()} == {*listed, "SOURCES.txt"}


def test_nan_and_infinity_become_strings() -> None:
    text = embedded({"a": math.inf, "b": [-math.inf, math.nan], "c": 1.5})
    assert json.loads(text) == {"a": "\0inf", "b": ["\0-inf", "\0nan"], "c": 1.5}


def test_scripts_never_write_html() -> None:
    dangerous = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(")
    for file in ASSETS.iterdir():
        if file.name.endswith(".js"):
            assert not dangerous.search(file.read_text()), file.name


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_text_has_the_contrast_required_by_wcag(theme: int) -> None:
    blocks = re.findall(r"\{([^{}]*--page[^{}]*)\}", ASSETS.joinpath("theme.css").read_text())
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))
    for ink in ("ink", "muted", "accent", "good", "bad"):
        for paper in ("page", "surface", "raised", "accent-soft"):
            if (ink, paper) in (("good", "accent-soft"), ("bad", "accent-soft")):
                continue  # these are never combined
            light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_both_dark_themes_are_the_same() -> None:
    blocks = re.findall(r"\{([^{}]*--page[^{}]*)\}", ASSETS.joinpath("theme.css").read_text())
    by_system, by_choice = (blocks[i].split() for i in (1, 2))
    assert by_system == by_choice


def test_an_empty_document_makes_a_page() -> None:
    assert render({"title": "x"}).startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_a_large_document_is_compressed(tmp_path: Path) -> None:
    document = write_page(tmp_path)
    document["nodes"] = [
        {**node, "settings": {"a": "<b>" * 10}} for node in document["nodes"] for _ in range(10_000)
    ]
    text = render(document)
    assert len(text) < 400_000 < 10_000_000 < len(embedded(document))
    start = 'id="document" data-encoding="gzip">'
    packed = text.split(start)[1].split("</script>")[0]
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == json.loads(embedded(document))


def test_numbers_that_are_not_finite_become_strings_and_names_stay() -> None:
    given = {"NaN": [1.0, math.inf, -math.inf, math.nan], 'a ":NaN, \\': "x:Infinity,NaN"}
    found = json.loads(embedded(given))
    assert found == {"NaN": [1.0, "\0inf", "\0-inf", "\0nan"], 'a ":NaN, \\': "x:Infinity,NaN"}


def test_scripts_share_one_scope_without_repeated_names() -> None:
    texts = [ASSETS.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", "\n".join(texts), re.MULTILINE)
    assert sorted(set(names)) == sorted(names)


THEME = ASSETS.joinpath("theme.css").read_text(encoding="utf-8")
COLOUR_BLINDNESS = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    # Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
}


def seen_colour(text: str, kind: str) -> torch.Tensor:
    """Return a colour as a person with that colour vision sees it, in CIE Lab, where distances are even."""
    rgb = torch.tensor([int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = (torch.tensor(COLOUR_BLINDNESS[kind], dtype=torch.float32) @ linear).clamp(0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = torch.tensor(to_xyz) @ linear / torch.tensor([0.95047, 1.0, 1.08883])
    f = torch.where(xyz > 0.008856, xyz ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", COLOUR_BLINDNESS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_charts_are_distinguishable(theme: str, kind: str) -> None:
    rules = THEME.split("@media screen {")[0 if theme == "light" else 1]
    found = {name: re.search(rf"--{name}: (#\w+)", rules) for name in ("accent", "second", "edge", "third")}
    lab = {name: seen_colour(match[1], kind) for name, match in found.items() if match}
    assert len(lab) == 4
    distances = {(a, b): float((lab[a] - lab[b]).norm()) for a in lab for b in lab if a < b}
    assert min(distances.values()) > 15, distances


@pytest.mark.parametrize("words", ["NaN", "-Infinity,", '"Infinity', "\\NaN\\", "\n-I"])
def test_words_in_strings_are_not_numbers(words: str) -> None:
    given = {words: [math.nan, words, -1.5, {"a": -math.inf, words: words}]}
    found = json.loads(embedded(given))
    assert found == {words: ["\0nan", words, -1.5, {"a": "\0-inf", words: words}]}
