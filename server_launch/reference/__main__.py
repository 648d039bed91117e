"""`python -m server_launch.reference`: options in, exit code out."""

import signal
import sys

from server_launch.reference.options import parse
from server_launch.reference.planted import UnknownPlant
from server_launch.reference.serve import StartupError, log_to_stderr, run

SWITCH_INTERVAL_S = 0.001
"""How long the scheduler's thread may keep the interpreter from the event loop's."""


def main() -> int:
    """Serve; 0 after a signal, 1 if the server could not start or broke, 2 for wrong options."""
    options = parse(sys.argv[1:])
    log_to_stderr()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the server serves: unwind, so that no rank stays behind
    try:
        return run(options)
    except UnknownPlant as error:
        print(f"server_launch.reference: {error}", file=sys.stderr)
        return 2
    except StartupError as error:
        print(f"server_launch.reference: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
