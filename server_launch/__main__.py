"""`python -m server_launch PROFILE`: start a server of a profile by hand, say where it is, and end all of it when interrupted."""

import argparse
import signal
import sys
import time
from pathlib import Path

from server_launch.launch import Asked, LaunchError, Server, launch
from server_launch.profile import ProfileError, load, names


def main(argv: list[str]) -> int:
    """0 after SIGINT or SIGTERM, 1 if the server did not come up or ended by itself, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(
        prog="python -m server_launch",
        description="Start a server as its profile says. What follows -- is added to its command line.",
        epilog="exit codes: 0 stopped by a signal, 1 the server did not start or ended by itself, 2 wrong options",
    )
    parser.add_argument("profile", help=f"{', '.join(names())}, or a TOML file")
    parser.add_argument("--model", help="name to serve under (default: the profile's)")
    parser.add_argument("--model-path", help="checkpoint, where the profile needs one")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (0)")
    parser.add_argument("--log", type=Path, default=Path("server.log"), help="file for its output (server.log)")
    parser.add_argument("--active-cap", type=int, help="requests that it runs at once")
    parser.add_argument("--context-length", type=int, help="tokens that its context holds")
    own, extra = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    given = parser.parse_args(own)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        profile = load(given.profile)
        asked = Asked(
            model=given.model or profile.model or "model", log=given.log, model_path=given.model_path, port=given.port,
            options={"active_cap": given.active_cap, "context_length": given.context_length}, extra=tuple(extra),
        )  # fmt: skip
        return _serve(launch(profile, asked, time.sleep))
    except ProfileError as error:
        print(f"server_launch: {error}", file=sys.stderr)
        return 2
    except (LaunchError, OSError) as error:
        print(f"server_launch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _serve(server: Server) -> int:
    """Say where it is and wait for its end, or for ours."""
    try:
        print(f"ready {server.url} pid={server.pid} log={server.log}", flush=True)
        code = server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()
    print(f"server_launch: the server ended by itself with {code}; see {server.log}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
