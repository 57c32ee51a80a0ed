"""A file from elsewhere: resumed where it was cut off, checked, and put in place in one step."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from chop.dataset.download.cache import is_offline
from chop.dataset.download.connection import explain, open_url
from chop.dataset.download.integrity import digest, record, verify_recorded
from chop.dataset.download.lock import locked
from chop.dataset.download.progress import Progress

logger = logging.getLogger(__name__)

ATTEMPTS = 5  # as long as each gets some bytes further
CHUNK = 1 << 18
OUT_OF_RANGE = 416  # HTTP status: what was asked for lies beyond the end
TEXT_LIMIT = 1 << 20  # bytes of a text that is kept in memory

_failures: dict[str, str] = {}  # address -> why not; an address is tried once a process


class DownloadError(OSError):
    """A file that could not be fetched, in one sentence."""


@dataclass(frozen=True)
class Remote:
    """A file elsewhere, and how to know that it is whole."""

    url: str
    name: str  # of our copy
    md5: str = ""  # as published; where nobody publishes one, the length and `check` have to do
    check: Callable[[Path], object] | None = None  # raises ValueError on a file of the wrong content


def fetch(remote: Remote, folder: Path) -> Path:
    """Our copy of the file in `folder`, which is downloaded if there is none yet."""
    target = folder / remote.name
    if target.exists():
        verify_recorded(target)
        return target
    _refuse_hopeless(remote.url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if not target.exists():  # another process may just have fetched it
                _download(remote, target)
    except (OSError, HTTPException) as error:
        raise _failed(remote.url, error) from error
    return target


def fetch_text(url: str) -> str:
    """A short text, kept nowhere."""
    _refuse_hopeless(url)
    try:
        with open_url(url, {}) as response:
            return response.read(TEXT_LIMIT).decode("utf-8", errors="replace")
    except (OSError, HTTPException) as error:
        raise _failed(url, error) from error


def _refuse_hopeless(url: str) -> None:
    if is_offline():
        raise DownloadError(f"{urlsplit(url).hostname} is not asked, as CHOP_OFFLINE is set")
    if url in _failures:
        raise DownloadError(_failures[url])


def _failed(url: str, error: OSError | HTTPException) -> DownloadError:
    """The error to raise, which is also that of the next try; one of our disk says so itself."""
    if isinstance(error, HTTPError):
        error.close()
    of_network = isinstance(error, URLError | ConnectionError | TimeoutError | HTTPException | ssl.SSLError)
    _failures[url] = explain(error, url) if of_network else str(error)
    return DownloadError(_failures[url])


def _download(remote: Remote, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    tag = target.with_name(f"{target.name}.part.tag")  # the server's name of the version that `part` begins
    _transfer(remote.url, part, tag)
    try:
        _check(remote, part)
    except DownloadError:
        part.unlink()  # going on from here would never make it right
        tag.unlink(missing_ok=True)
        raise
    record(part, target)
    os.replace(part, target)
    tag.unlink(missing_ok=True)
    logger.info("saved %s", target)


def _check(remote: Remote, part: Path) -> None:
    if remote.md5 and (found := digest(part, "md5")) != remote.md5:
        raise DownloadError(f"{remote.url} gives a file with the md5 {found}, published is {remote.md5}")
    if remote.check is not None:
        try:
            remote.check(part)
        except ValueError as error:
            raise DownloadError(f"{remote.url} gives another file than expected: {error}") from error


def _transfer(url: str, part: Path, tag: Path) -> None:
    """All bytes of `url` in `part`; a cut connection is taken up again where it was cut."""
    for attempt in range(1, ATTEMPTS + 1):
        before = _length(part)
        try:
            return _append(url, part, tag)
        except HTTPError as error:
            if error.code != OUT_OF_RANGE or attempt == ATTEMPTS:
                raise
            error.close()
            part.unlink(missing_ok=True)
        except (ConnectionError, TimeoutError, HTTPException) as error:
            if _length(part) <= before or attempt == ATTEMPTS:
                raise
            logger.info("%s: the connection broke off (%s); going on", part.stem, explain(error, url))
    raise AssertionError("the last attempt returns or raises")


def _append(url: str, part: Path, tag: Path) -> None:
    """What is missing in `part`, or everything where the server cannot go on or has another version now."""
    done = _length(part) if tag.exists() else 0  # without its tag, nobody knows what the beginning is of
    going_on = {"Range": f"bytes={done}-", "If-Range": tag.read_text(encoding="latin-1")} if done else {}
    with open_url(url, going_on) as response:
        start = _range_start(response)
        if start not in (0, done):
            raise ConnectionError(f"the server goes on at byte {start}, not at {done}")
        done = start
        total = _total(response, done)
        if done == 0:
            part.unlink(missing_ok=True)  # before the tag: they never disagree
            _note_tag(response, tag)
        with part.open("ab") as file, Progress(part.stem, done, total) as progress:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                progress.update(file.tell())
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _length(part) != total:
        raise ConnectionError(f"{_length(part)} of {total} bytes came")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _range_start(response: HTTPResponse) -> int:
    """Which byte the answer begins with."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found and response.status == 206 else 0


def _total(response: HTTPResponse, done: int) -> int | None:
    length = response.headers.get("Content-Length", "")
    return done + int(length) if length.isdecimal() else None


def _note_tag(response: HTTPResponse, tag: Path) -> None:
    """Keep what tells this version from others; `If-Range` takes no weak tags."""
    etag, date = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
    strong = etag if etag and not etag.startswith("W/") else date
    if strong:
        tag.write_text(strong, encoding="latin-1")
    else:
        tag.unlink(missing_ok=True)
