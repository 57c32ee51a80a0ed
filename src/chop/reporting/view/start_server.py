"""Start the server of `ch view` and print its address."""

from __future__ import annotations

import errno
import logging
import sys
import threading
import webbrowser
from pathlib import Path

from chop.config import ViewConfig
from chop.reporting.view.server import ViewServer
from chop.runs import RunFolder

logger = logging.getLogger(__name__)


def view(config: ViewConfig) -> None:
    """Serve the runs of a folder to browsers on this machine, until Ctrl-C."""
    _check_folder(config.folder)
    with make_server(config.folder, config.host, config.port) as server:
        if server.is_public:
            logger.warning("anyone who can connect to %s can read these runs", config.host)
        address = address_of(server, config.host)
        _print(f"runs of {config.folder}: {address}  (stop with Ctrl-C)")
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


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"there is no folder '{folder}'; use ch view FOLDER to show the runs of another folder")
    if RunFolder(folder).config.is_file():
        raise ValueError(f"'{folder}' is a single run; give its project, '{folder.absolute().parent}'")


def _open(address: str) -> None:
    if not webbrowser.open(address):
        _print("no browser was found; open this address in a browser")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
