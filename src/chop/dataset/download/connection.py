"""HTTP with a time-out for connecting, and another for each wait for data."""

from __future__ import annotations

import queue
import ssl
import threading
from collections.abc import Callable
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener

CONNECT_TIMEOUT = 5.0  # seconds for name look-up, all addresses and handshake together
READ_TIMEOUT = 30.0  # seconds without a byte


def open_url(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Return the response of a server, before its content is read; proxies and redirects are followed."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise URLError(f"'{url}' is not an http or https URL")
    request = Request(url, headers={"User-Agent": "chop", "Accept-Encoding": "identity", **headers})
    opener = build_opener(_Plain, _Secure)
    return cast(HTTPResponse, opener.open(request, timeout=CONNECT_TIMEOUT))


def explain(error: Exception, url: str) -> str:
    """Return in a few words why `url` could not be downloaded."""
    host = urlsplit(url).hostname
    if isinstance(error, HTTPError):
        return f"{host} returned {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"{host} did not respond in time"
    detail = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"{host} cannot be reached ({detail})"


class _PlainConnection(HTTPConnection):
    def connect(self) -> None:
        _connect_in_time(self, super().connect)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        _connect_in_time(self, super().connect)


class _Plain(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PlainConnection, req)


class _Secure(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req, context=_context())


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()  # reads all certificates of the system, which takes 50 ms


def _connect_in_time(connection: HTTPConnection, connect: Callable[[], None]) -> None:
    """Connect in a thread: the time-out of a socket excludes the name look-up, and applies to one address only."""
    outcome: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    given_up = threading.Event()

    def work() -> None:
        try:
            connect()
        except (OSError, HTTPException, ValueError) as error:
            outcome.put(error)
        else:
            outcome.put(None)
            if given_up.is_set():
                connection.close()

    threading.Thread(target=work, daemon=True).start()
    try:
        error = outcome.get(timeout=CONNECT_TIMEOUT)
    except queue.Empty:
        given_up.set()
        raise TimeoutError(f"no connection within {CONNECT_TIMEOUT:g} s") from None
    if error is not None:
        raise error
    connection.sock.settimeout(READ_TIMEOUT)
