"""What can be learned about a server that is already there: does it answer, which models does it serve, which process is it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import psutil
import requests

TIMEOUT_S = 10.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
FORWARDERS = frozenset({"docker-proxy"})
"""Programs that listen in the name of a server in another namespace."""


class NotReachable(Exception):
    """Nobody answers there; one line that says what to do."""


class AttachError(Exception):
    """The server is not what was said; one line that says what to do."""


def models(base_url: str, headers: Mapping[str, str]) -> list[str]:
    """Names that /v1/models lists; empty where there is no such list. Raises NotReachable, AttachError."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AttachError(f"{base_url!r} is no address of a server: give one like http://127.0.0.1:8000 with --host")
    try:
        answer = requests.get(base_url.rstrip("/") + "/v1/models", headers=dict(headers), timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise NotReachable(f"no server answers at {base_url} ({type(error).__name__}): start it, or correct --host") from error
    if answer.status_code in (401, 403):
        raise AttachError(f"the server at {base_url} wants a key: give the right one in OPENAI_API_KEY or with --api-key")
    try:
        return [str(entry["id"]) for entry in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def check_model(base_url: str, model: str | None, headers: Mapping[str, str]) -> str:
    """The model to ask for: the one that was named, if it is served, or the only one there is. Raises NotReachable, AttachError."""
    known = models(base_url, headers)
    if model is None:
        if len(known) == 1:
            return known[0]
        raise AttachError(f"say which model with --model: {base_url} serves {', '.join(known) or 'a list that cannot be read'}")
    if known and model not in known:
        raise AttachError(f"model {model!r} is not served at {base_url}: use --model {' or '.join(known)}")
    return model


def find_pid(base_url: str) -> int | None:
    """The process that listens there, if it is on this machine and may be looked at; of several, the one that was first."""
    parts = urlsplit(base_url)
    if parts.hostname not in LOOPBACK:
        return None
    port = parts.port or {"https": 443}.get(parts.scheme, 80)
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return None
    there = [each for each in sockets if each.status == psutil.CONN_LISTEN and each.laddr.port == port]
    owners = {each.pid for each in there if each.pid is not None and each.laddr.ip in LOOPBACK | ANY_ADDRESS}
    return min((pid for pid in owners if _name(pid) not in FORWARDERS), key=_started_s, default=None)


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""


def _started_s(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return float("inf")
