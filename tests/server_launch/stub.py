"""A server of the tests that does what a start has to cope with: python -m tests.server_launch.stub --port N [how to misbehave]."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def main() -> int:
    """Serve /health and /v1/models until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="stub")
    parser.add_argument("--key", default="")
    parser.add_argument("--exit", type=int, help="end with this code before it is ready")
    parser.add_argument("--die-by", type=int, help="end by this signal before it is ready")
    parser.add_argument("--silent", action="store_true", help="never become ready")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--orphan", type=Path, help="start a process in a session of its own, and write its pid into this file")
    parser.add_argument("--allocate-mib", type=int, default=0)
    given = parser.parse_args()
    print("loading", flush=True)
    if given.orphan:
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        given.orphan.write_text(str(other.pid))
    if given.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.die_by is not None:
        os.kill(os.getpid(), given.die_by)
    if given.exit is not None:
        print("no weights\nRuntimeError: no weights in the folder", flush=True)
        return int(given.exit)
    if given.allocate_mib:
        held = bytearray(given.allocate_mib << 20)
        print(f"holds {len(held)} bytes")
    _serve(given)
    return 0


def _serve(given: argparse.Namespace) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if given.key and self.headers.get("Authorization") != f"Bearer {given.key}":
                self.send_error(401)
                return
            data = json.dumps({"data": [{"id": name} for name in given.model.split(",")]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            print(format % args, flush=True)

    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    while given.silent:
        time.sleep(0.1)
    print(f"env {os.environ.get('STUB_WORD', '')}", flush=True)
    print(f"ready http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
