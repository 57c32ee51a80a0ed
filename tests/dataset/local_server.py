"""A local web server that can fail in the ways real ones do."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server responds, and the requests that it received."""

    content: bytes
    url: str = ""
    etag: str = '"first"'
    status: int = 200
    knows_ranges: bool = True
    tells_length: bool = True
    cuts: list[int] = field(default_factory=list)  # bytes after which each of the first responses is interrupted
    silence: float = 0.0  # seconds before anything is answered
    pause: float = 0.0  # seconds between two pieces of the answer
    asked: list[dict[str, str]] = field(default_factory=list)  # headers of each request

    @property
    def ranges(self) -> list[str | None]:
        """What part of the file each request asked for."""
        return [headers.get("Range") for headers in self.asked]


@contextmanager
def serve(content: bytes) -> Iterator[Site]:
    """Run a server that returns `content`; its behaviour can be changed at any time."""
    site = Site(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(dict(self.headers))
            time.sleep(site.silence)
            start = self._answer_head()
            cut = site.cuts.pop(0) if site.cuts else len(site.content)
            self._send(site.content[start:cut] if site.status == 200 else b"")

        def _answer_head(self) -> int:
            wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range", site.etag) == site.etag
            start = int(wanted[1]) if wanted and same and site.knows_ranges else 0
            if start >= len(site.content) > 0:
                self.send_error(416)
                return len(site.content)
            self.send_response(206 if start else site.status)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
            if site.etag:
                self.send_header("ETag", site.etag)
            if site.tells_length:
                self.send_header("Content-Length", str(len(site.content) - start))
            self.end_headers()
            return start

        def _send(self, body: bytes) -> None:
            step = max(len(body) // 20, 1) if site.pause else max(len(body), 1)
            try:
                for piece in range(0, len(body), step):
                    self.wfile.write(body[piece : piece + step])
                    self.wfile.flush()
                    time.sleep(site.pause)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client was killed

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests' output is for tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_address[1]}/file"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
