"""The server: who may ask, and what is sent with every answer."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from chop.reporting.view.routes import Answer, NotFoundError, find_answer

logger = logging.getLogger(__name__)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
PIECE = 2**18  # bytes of a file that are in memory at one time
NO_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"


class ViewServer(ThreadingHTTPServer):
    """Shows the runs below `root` to browsers that asked for this very machine."""

    def __init__(self, root: Path, host: str, port: int) -> None:
        self.root = root
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        super().__init__((str(address[0]), port), Handler)
        own = {socket.gethostname().lower()} if self.is_everywhere else set()
        self._names = {"localhost", host.lower(), *own}

    def server_bind(self) -> None:
        """Without asking for the machine's full name, as HTTPServer does, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def is_everywhere(self) -> bool:
        """Whether it listens at all addresses of the machine."""
        return ipaddress.ip_address(self.server_name).is_unspecified

    @property
    def is_open(self) -> bool:
        """Whether other machines may reach it."""
        return not ipaddress.ip_address(self.server_name).is_loopback

    def answers_to(self, host: str) -> bool:
        """Whether a Host header names this server.

        A name of someone else's that leads here comes from a page that wants to read what is shown (DNS
        rebinding). An address of numbers cannot do that.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.is_everywhere

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away before the end is nothing to tell."""
        logger.debug("a request of %s was broken off", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD, and nothing else."""

    server: ViewServer
    server_version, sys_version = "chop/view", ""
    timeout = 30  # seconds that a silent connection is kept

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.answers_to(hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN, "this server is known by another name; see what ch view printed")
            return
        try:
            answer = find_answer(self.server.root, self.path)
        except NotFoundError as error:
            self.send_error(HTTPStatus.NOT_FOUND, str(error))
        except Exception:
            logger.exception("%s cannot be shown", self.path)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "this page cannot be shown; the terminal says why")
        else:
            self._send(answer)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, "there is nothing to change here")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _send(self, answer: Answer) -> None:
        if isinstance(answer.content, bytes):
            self._send_head(HTTPStatus.OK, answer.content_type, len(answer.content), answer.policy)
            if self.command != "HEAD":
                self.wfile.write(answer.content)
            return
        try:
            file: BinaryIO = answer.content.open("rb")
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self._send_head(HTTPStatus.OK, answer.content_type, size, answer.policy)
            while self.command != "HEAD" and size > 0 and (piece := file.read(min(size, PIECE))):
                self.wfile.write(piece)
                size -= len(piece)  # a log may have grown by now; what was promised is sent

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line of text, under the same headers as everything else."""
        text = f"{code} {message or HTTPStatus(code).phrase}\n".encode("utf-8", "replace")
        self._send_head(code, "text/plain; charset=utf-8", len(text), NO_POLICY)
        if self.command != "HEAD":
            self.wfile.write(text)

    def _send_head(self, code: int, content_type: str, length: int, policy: str) -> None:
        self.send_response(code)
        more = {"Content-Type": content_type, "Content-Length": length, "Content-Security-Policy": policy}
        more |= {"Allow": "GET, HEAD"} if code == HTTPStatus.METHOD_NOT_ALLOWED else {}
        for name, value in (HEADERS | more).items():
            self.send_header(name, str(value))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("%s %s", self.client_address[0], format % args)
