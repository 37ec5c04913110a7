"""A Hugging Face Hub on 127.0.0.1 that has one repository."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "owner/repo"


@contextmanager
def fake_hub(files: dict[str, bytes]) -> Iterator[str]:
    """Serve `files` of `owner/repo` at revisions main and v2 (`owner/gated` wants a login); yields the endpoint."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def log_message(self, *args: object) -> None:
            pass

        def _answer(self, *, with_body: bool) -> None:
            owner, name, _, revision, *inside = self.path.lstrip("/").split("/")
            repo, file = f"{owner}/{name}", "/".join(inside)
            if repo == "owner/gated":
                self._refuse(403, "GatedRepo")
            elif repo != REPO:
                self._refuse(401, "RepoNotFound")
            elif revision not in ("main", "v2", COMMIT):
                self._refuse(404, "RevisionNotFound")
            elif file not in files:
                self._refuse(404, "EntryNotFound")
            else:
                self._send(files[file], with_body)

        def _send(self, body: bytes, with_body: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def _refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("X-Error-Code", code)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
