"""Start the server, say where it is, and end it with Ctrl-C."""

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
        if server.is_open:
            logger.warning("everyone who can reach %s can see these runs", config.host)
        address = address_of(server, config.host)
        _tell(f"the runs of {config.folder}: {address}  (Ctrl-C ends this)")
        if config.open:
            threading.Thread(target=_open, args=(address,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _tell("")


def make_server(folder: Path, host: str, port: int) -> ViewServer:
    """A server that listens; at another port, and it says so, where the one wanted is taken."""
    if not host:
        raise ValueError("'host' is empty; 127.0.0.1 is this machine alone, 0.0.0.0 all of the network")
    try:
        return ViewServer(folder, host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            reason = error.strerror or str(error)
            raise OSError(f"cannot listen at {host}, port {port}: {reason}") from error
    server = make_server(folder, host, 0)
    _tell(f"port {port} is taken; this is at port {server.server_port}")
    return server


def address_of(server: ViewServer, host: str) -> str:
    """What to type into a browser on this machine."""
    name = "localhost" if server.is_everywhere else f"[{host}]" if ":" in host else host
    return f"http://{name}:{server.server_port}/"


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"there is no folder '{folder}'; ch view FOLDER shows the runs in another one")
    if RunFolder(folder).config.is_file():
        raise ValueError(f"'{folder}' is a single run; the folder that it lies in is '{folder.absolute().parent}'")


def _open(address: str) -> None:
    if not webbrowser.open(address):
        _tell("no browser was found here; open the address in one")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
