"""A page on this machine alone: a small web server at the loopback address, until it is stopped."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fedrec.core.errors import FedrecError
from fedrec.serve.page import WORKER, Page

HOST = "127.0.0.1"


def host(made: Page, port: int) -> ThreadingHTTPServer:
    """A server that is ready; ``serve_forever`` runs it. Only the page and its worker are given."""
    pages = {"/": (made.html, "text/html; charset=utf-8"), f"/{WORKER}": (made.worker, "text/javascript")}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, kind = pages.get(self.path.partition("?")[0], (b"not here\n", "text/plain"))
            self.send_response(200 if kind != "text/plain" else 404)
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(len(content)),
                "Cache-Control": "no-cache",
                "X-Content-Type-Options": "nosniff",
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Who looks is nobody's business."""

    try:
        return ThreadingHTTPServer((HOST, port), Answer)
    except OSError as error:
        raise FedrecError(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port (--port)"
        ) from None
