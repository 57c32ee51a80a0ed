"""The HTTP server: whose requests it answers, and the headers of every response."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import sys
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from chop.config import ViewConfig
from chop.files import CorruptFileError, open_regular
from chop.reporting.view.routes import NotFoundError, Response, respond
from chop.runs import RunFolder

logger = logging.getLogger(__name__)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
CHUNK_SIZE = 2**18  # bytes of a file that are in memory at a time
STRICTEST_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"


class ViewServer(ThreadingHTTPServer):
    """A server of the runs in `root` that only answers requests addressed to this machine."""

    def __init__(self, root: Path, host: str, port: int) -> None:
        self.root = root
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        super().__init__((str(address[0]), port), RequestHandler)
        own = {socket.gethostname().lower()} if self.listens_everywhere else set()
        self._names = {"localhost", host.lower(), *own}

    def server_bind(self) -> None:
        """Bind without looking up the machine's full name, as HTTPServer does, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def listens_everywhere(self) -> bool:
        """Whether the server listens on all addresses of the machine."""
        return ipaddress.ip_address(self.server_name).is_unspecified

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the server."""
        return not ipaddress.ip_address(self.server_name).is_loopback

    def answers_to(self, host: str) -> bool:
        """Return whether a Host header names this server.

        A foreign name that resolves to this machine comes from a web page that tries to read the runs (DNS
        rebinding). A numeric address cannot be abused in this way.
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
        return address.is_loopback or self.listens_everywhere

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that a browser closed early."""
        logger.debug("a request from %s was interrupted", client_address, exc_info=True)


class RequestHandler(BaseHTTPRequestHandler):
    """A handler of GET and HEAD requests; all others are refused."""

    server: ViewServer
    server_version, sys_version = "chop/view", ""
    timeout = 30  # seconds until an idle connection is closed

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.answers_to(hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN, "unknown host name; use the address that ch view printed")
            return
        try:
            response = respond(self.server.root, self.path)
        except NotFoundError as error:
            self.send_error(HTTPStatus.NOT_FOUND, str(error))
        except Exception:
            logger.exception("%s cannot be shown", self.path)
            self.send_error(
                HTTPStatus.INTERNAL_SERVER_ERROR, "this page cannot be shown; the error is printed in the terminal"
            )
        else:
            self._send(response)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, "this server is read-only")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _send(self, response: Response) -> None:
        if isinstance(response.content, bytes):
            self._send_head(HTTPStatus.OK, response.content_type, len(response.content), response.policy)
            if self.command != "HEAD":
                self.wfile.write(response.content)
            return
        try:
            file = open_regular(response.content)
        except (OSError, CorruptFileError):
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self._send_head(HTTPStatus.OK, response.content_type, size, response.policy)
            while self.command != "HEAD" and size > 0 and (chunk := file.read(min(size, CHUNK_SIZE))):
                self.wfile.write(chunk)
                size -= len(chunk)  # a log may have grown since; only the announced length is sent

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send one line of text, with the same headers as every response."""
        text = f"{code} {message or HTTPStatus(code).phrase}\n".encode("utf-8", "replace")
        self._send_head(code, "text/plain; charset=utf-8", len(text), STRICTEST_POLICY)
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


def view(config: ViewConfig) -> None:
    """Serve the runs of a folder to browsers on this machine, until Ctrl-C."""
    folder = config.folder
    if not folder.is_dir():
        raise ValueError(f"there is no folder '{folder}'; use ch view FOLDER to show the runs of another folder")
    if RunFolder(folder).config.is_file():
        raise ValueError(f"'{folder}' is a single run; give its project, '{folder.absolute().parent}'")
    with make_server(folder, config.host, config.port) as server:
        if server.is_public:
            logger.warning("anyone who can connect to %s can read these runs", config.host)
        address = address_of(server, config.host)
        _print(f"runs of {folder}: {address}  (stop with Ctrl-C)")
        if config.open:
            threading.Thread(target=_open, args=(address,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _print("")


def make_server(folder: Path, host: str, port: int) -> ViewServer:
    """Return a listening server; if the port is in use, it listens on a free one and prints which."""
    if not host:
        raise ValueError("'host' is empty; use 127.0.0.1 for this machine only, 0.0.0.0 for the network")
    try:
        return ViewServer(folder, host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            reason = error.strerror or str(error)
            raise OSError(f"cannot listen on {host}, port {port}: {reason}") from error
    server = make_server(folder, host, 0)
    _print(f"port {port} is in use; listening on port {server.server_port}")
    return server


def address_of(server: ViewServer, host: str) -> str:
    """Return the address to open in a browser on this machine."""
    name = "localhost" if server.listens_everywhere else f"[{host}]" if ":" in host else host
    return f"http://{name}:{server.server_port}/"


def _open(address: str) -> None:
    if not webbrowser.open(address):
        _print("no browser was found; open this address in a browser")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
