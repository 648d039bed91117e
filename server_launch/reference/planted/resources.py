"""What a process keeps for each client that left: descriptors, sockets, threads, memory, children."""

import os
import subprocess
import threading

from starlette.types import ASGIApp, Receive, Scope, Send

from server_launch.reference.http import HttpServer
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request
from server_launch.reference.scheduler import Scheduler

KEPT_BYTES = 8 * 2**20


@plant(Kind.LEAK, "BerriAI/litellm #13220", "process.resources")
class DescriptorPerAbort(Planted):
    """Each client that leaves keeps a file of its queue open."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        os.open(os.devnull, os.O_RDONLY)


@plant(Kind.LEAK, "vllm-project/vllm #7920", "process.resources")
class SocketPerAbort(Planted):
    """The connection of each second client that leaves is kept half closed."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def keeping(scope: Scope, receive: Receive, send: Send) -> None:
            if not wire.generating(scope):
                await app(scope, receive, send)
                return
            copy = os.dup(wire.transport(scope).get_extra_info("socket").fileno())
            await app(scope, receive, send)
            if not wire.transport(scope).is_closing() or self.nth(2):
                os.close(copy)

        return keeping


@plant(Kind.LEAK, "vllm-project/vllm PR #51629", "process.resources")
class ThreadPerAbort(Planted):
    """Each client that leaves keeps a thread waiting for it."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


@plant(Kind.LEAK, "InternLM/lmdeploy #1334", "process.resources")
class MemoryPerAbort(Planted):
    """Each client that leaves keeps its cache and workspace, some megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[object] = []

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone:
            self._kept.append((request.cache, os.urandom(1) * KEPT_BYTES))
        super().free(scheduler, request)


@plant(Kind.LEAK, "vllm-project/vllm PR #51629", "process.resources")
class ChildPerFifthAbort(Planted):
    """Every fifth client that leaves starts a helper process, and nobody waits for its end."""

    def __init__(self) -> None:
        super().__init__()
        self._children: list[subprocess.Popen[bytes]] = []

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(5):
            self._children.append(subprocess.Popen(["true"]))
