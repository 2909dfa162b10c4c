"""A hub on loopback for tests: one file, served as a hub serves it, or with the faults that a test asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Hub:
    """What the server has and does; `asked` holds the path and the Range header of each request, in order."""

    data: bytes
    ranges: bool = True
    cut: list[int] = field(default_factory=list)
    """For each of the next answers: the number of bytes after which the connection breaks."""
    status: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        hub, wanted = self.hub, self.headers.get("Range")
        hub.asked.append((self.path, wanted))
        if hub.status is not None:
            self.send_error(hub.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
        if start >= len(hub.data):
            self.send_error(416)
            return
        self.send_response(206 if wanted and hub.ranges else 200)
        if wanted and hub.ranges:
            self.send_header("Content-Range", f"bytes {start}-{len(hub.data) - 1}/{len(hub.data)}")
        self.send_header("Content-Length", str(len(hub.data) - start))
        self.end_headers()
        length = hub.cut.pop(0) if hub.cut else len(hub.data)
        self.wfile.write(hub.data[start : start + length])
        if length < len(hub.data) - start:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests look at `asked`."""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serves the hub on loopback until the context ends; sets its address."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
