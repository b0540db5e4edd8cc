"""The only door to the SuperLink from outside: what nodes say to a fleet passes, nothing else does.

Without it, one port carries the fleet, control and runtime interfaces, and whoever has the authority's certificate
could register a key of their own or start a run, which is code on the server.
"""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.deploy.flower import needed
from fedrec.deploy.keys import CA, CERTIFICATE, KEY
from fedrec.deploy.wire import LARGEST

PASSED = frozenset(
    f"/v1/fleet/{name}"
    for name in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "get-run",
        "get-fab", "push-object", "pull-object", "confirm-message-received",
    )
)  # fmt: skip
KEPT = ("content-type", "accept", "accept-encoding", "user-agent")


class Proxy:
    """Passes fleet requests on to a SuperLink on this machine, and counts their bytes."""

    def __init__(self, tls: Path, host: str, port: int, upstream: int) -> None:
        needed()
        self.tls, self.host, self.port, self.upstream = tls, host, port, upstream
        self.up = self.down = self.refused = 0
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def _app(self) -> Any:
        import httpx
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        trusted = ssl.create_default_context(cafile=str(self.tls / CA))
        client = httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{self.upstream}", verify=trusted, timeout=120, trust_env=False
        )

        async def answered(request: Request) -> Response:
            path = request.url.path
            if path not in PASSED or request.method != "POST":
                self.refused += 1
                return Response("not for nodes", 403 if path.startswith("/v1/fleet/") else 404)
            body = b""
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    self.refused += 1
                    return Response("too large", 413)
            headers = {n: v for n, v in request.headers.items() if n in KEPT or n.startswith("flwr-")}
            try:
                answer = await client.post(path, content=body, headers=headers)
            except httpx.HTTPError:
                return Response("the server is away", 503)
            self.passed(body, answer.content)
            kept = {n: v for n, v in answer.headers.items() if n == "content-type" or n.startswith("flwr-")}
            return Response(answer.content, answer.status_code, headers=kept)

        return Starlette(
            routes=[Route("/{path:path}", answered, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])]
        )

    def passed(self, up: bytes, down: bytes) -> None:
        """What went through, without TLS: it is counted."""
        self.up, self.down = self.up + len(up), self.down + len(down)

    def start(self) -> None:
        import uvicorn

        config = uvicorn.Config(
            self._app(), host=self.host, port=self.port, log_level="error", lifespan="off",
            ssl_certfile=str(self.tls / CERTIFICATE), ssl_keyfile=str(self.tls / KEY),
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        for _ in range(200):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            time.sleep(0.05)
        raise FedrecError(f"cannot listen on {self.host}:{self.port}: is the port in use?")

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
            assert self._thread is not None
            self._thread.join(10)
