"""The files of published data sets: in a user's folder, or downloaded once, verified, and kept in the cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from chop.cache import is_offline
from chop.display.progress import ProgressBar
from chop.folder_lock import locked

logger = logging.getLogger(__name__)


def digest(path: Path, algorithm: str) -> str:
    """Return the checksum of a file in hex digits, without reading it at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def record(path: Path, target: Path) -> None:
    """Write the sha256 of `path`, which will be renamed to `target`, in the format of `sha256sum`."""
    record_file = _record_file(target)
    unfinished = record_file.with_name(f"{record_file.name}.part")
    unfinished.write_text(f"{digest(path, 'sha256')}  {target.name}\n", encoding="utf-8")
    os.replace(unfinished, record_file)


def verify_recorded(path: Path) -> None:
    """Raise an error if a file differs from what was downloaded; a file without a record is accepted."""
    record_file = _record_file(path)
    if not record_file.exists():
        return
    words = record_file.read_text(encoding="utf-8", errors="replace").split()
    status = path.stat()
    if not words or _sha256(path, status.st_size, status.st_mtime_ns) != words[0]:
        raise ValueError(
            f"'{path}' is corrupt or was changed: its sha256 differs from '{record_file.name}', which was recorded "
            "after the download; delete both files to download it again"
        )


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed_at: int) -> str:
    """Return the checksum; it is cached until size or time of the file change."""
    return digest(path, "sha256")


def _record_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


TIMEOUT = 15.0  # seconds for connecting to an address, and without a byte
MAX_ATTEMPTS = 5  # as long as each one receives some bytes
CHUNK_SIZE = 1 << 18
MD5_DIGITS = 32
OUT_OF_RANGE = 416  # HTTP status: the requested range is beyond the end of the file
MAX_TEXT_BYTES = 1 << 20

_failures: dict[str, str] = {}  # URL -> reason; a URL that failed is not tried again in this process


class DownloadError(OSError):
    """A file could not be downloaded; the message is one sentence."""


@dataclass(frozen=True)
class Remote:
    """A file on a server, and how to verify it."""

    url: str
    name: str  # of our copy
    checksum: str = ""  # SHA-256, or md5 if that is published; without it, the length and `check` count
    check: Callable[[Path], object] | None = None  # raises ValueError if the content is wrong


def fetch(remote: Remote, folder: Path) -> Path:
    """Return the local copy of a file in `folder`; download it if there is none."""
    target = folder / remote.name
    if target.exists():
        verify_recorded(target)
        return target
    _check_allowed(remote.url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, f"downloading to {folder}"):
            if not target.exists():  # another process may just have downloaded it
                _download(remote, target)
    except (OSError, HTTPException) as error:
        raise _failed(remote.url, error) from error
    return target


def fetch_text(url: str) -> str:
    """Return a short text from a server, without keeping a copy."""
    _check_allowed(url)
    try:
        with _open(url, {}) as response:
            return response.read(MAX_TEXT_BYTES).decode("utf-8", errors="replace")
    except (OSError, HTTPException) as error:
        raise _failed(url, error) from error


def _check_allowed(url: str) -> None:
    if is_offline():
        raise DownloadError(f"downloads from {urlsplit(url).hostname} are disabled by CHOP_OFFLINE")
    if url in _failures:
        raise DownloadError(_failures[url])


def _failed(url: str, error: OSError | HTTPException) -> DownloadError:
    """Return the error to raise, and remember it for later attempts; errors of the disk keep their message."""
    if isinstance(error, HTTPError):
        error.close()
    of_network = isinstance(error, URLError | ConnectionError | TimeoutError | HTTPException | ssl.SSLError)
    _failures[url] = _explain(error, url) if of_network else str(error)
    return DownloadError(_failures[url])


def _open(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Return the response of a server, before its content is read; proxies and redirects are followed."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise URLError(f"'{url}' is not an http or https URL")
    request = Request(url, headers={"User-Agent": "chop", "Accept-Encoding": "identity", **headers})
    return cast(HTTPResponse, urlopen(request, timeout=TIMEOUT))


def _explain(error: Exception, url: str) -> str:
    """Return in a few words why `url` could not be downloaded."""
    host = urlsplit(url).hostname
    if isinstance(error, HTTPError):
        return f"{host} returned {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"{host} did not respond in time"
    detail = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"{host} cannot be reached ({detail})"


def _download(remote: Remote, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    tag = target.with_name(f"{target.name}.part.tag")  # identifies the version of the file that `part` is from
    _transfer(remote.url, part, tag)
    try:
        _check(remote, part)
    except DownloadError:
        part.unlink()  # resuming it would fail again
        tag.unlink(missing_ok=True)
        raise
    record(part, target)
    os.replace(part, target)
    tag.unlink(missing_ok=True)
    logger.info("saved %s", target)


def _check(remote: Remote, part: Path) -> None:
    algorithm = "md5" if len(remote.checksum) == MD5_DIGITS else "sha256"
    if remote.checksum and (found := digest(part, algorithm)) != remote.checksum:
        raise DownloadError(f"the file from {remote.url} has the {algorithm} {found}, not {remote.checksum}")
    if remote.check is not None:
        try:
            remote.check(part)
        except ValueError as error:
            raise DownloadError(f"the file from {remote.url} is not the expected one: {error}") from error


def _transfer(url: str, part: Path, tag: Path) -> None:
    """Download `url` to `part`; resume if the connection is interrupted."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        before = _length(part)
        try:
            return _append(url, part, tag)
        except HTTPError as error:
            if error.code != OUT_OF_RANGE or attempt == MAX_ATTEMPTS:
                raise
            error.close()
            part.unlink(missing_ok=True)
        except (ConnectionError, TimeoutError, HTTPException) as error:
            if _length(part) <= before or attempt == MAX_ATTEMPTS:
                raise
            logger.info("%s: the connection was interrupted (%s); resuming", part.stem, _explain(error, url))
    raise AssertionError("the last attempt returns or raises")


def _append(url: str, part: Path, tag: Path) -> None:
    """Download what is missing in `part`; everything if the server cannot resume or has a new version."""
    done = _length(part) if tag.exists() else 0  # without its tag the version of `part` is unknown
    resume_headers = {"Range": f"bytes={done}-", "If-Range": tag.read_text(encoding="latin-1")} if done else {}
    with _open(url, resume_headers) as response:
        found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        start = int(found[1]) if found and response.status == 206 else 0
        if start not in (0, done):
            raise ConnectionError(f"the server resumes at byte {start}, not at {done}")
        done, length = start, response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        if done == 0:
            part.unlink(missing_ok=True)  # before the tag, so that they always match
            _note_tag(response, tag)
        size = "size unknown" if total is None else _megabytes(total)
        logger.info("downloading %s (%s)%s", part.stem, size, f", resuming at {_megabytes(done)}" if done else "")
        missing = None if total is None else total - done
        with part.open("ab") as file, ProgressBar(f"bytes of {part.stem}", missing) as progress:
            while chunk := response.read(CHUNK_SIZE):
                file.write(chunk)
                progress.step(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _length(part) != total:
        raise ConnectionError(f"{_length(part)} of {total} bytes were received")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"


def _note_tag(response: HTTPResponse, tag: Path) -> None:
    """Store what identifies the version of the file; `If-Range` does not accept weak tags."""
    etag, date = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
    strong = etag if etag and not etag.startswith("W/") else date
    if strong:
        tag.write_text(strong, encoding="latin-1")
    else:
        tag.unlink(missing_ok=True)


def named_folder(path: str | os.PathLike[str], dataset: str) -> Path:
    """Return the user's folder; raise an error if it does not exist."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ValueError(f"the folder '{folder}' for data set '{dataset}' does not exist")
    return folder


def find_file(folder: Path, name: str, dataset: str) -> Path:
    """Return the file called `name` in a folder, compressed or not."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise ValueError(f"the folder '{folder}' has no file '{name}' or '{name}.gz', which data set '{dataset}' needs")


def fetch_from_mirrors(remotes: Sequence[Remote], folder: Path, dataset: str, alternative: str) -> Path:
    """Return a file from the first server that has it; `alternative` says what path= accepts instead."""
    reasons = []
    for remote in remotes:
        try:
            return fetch(remote, folder)
        except DownloadError as error:
            reasons.append(str(error))
    raise DownloadError(
        f"data set '{dataset}' is not in '{folder}' and cannot be downloaded: {'; '.join(reasons)}; "
        f"if you have {alternative} give it as path="
    )
