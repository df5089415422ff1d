"""The entry point: ``statusline`` without the other commands, as a shell prompt waits for it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; expected failures are one line and an exit code."""
    if sys.argv[1:] == ["statusline"]:
        # The shell waits for it at every prompt: no option parsing.
        from agenttrace.cli.prompt import print_line

        print_line()
        return
    from agenttrace.cli.program import run
    from agenttrace.cli.stopping import leave

    try:
        sys.exit(run())
    finally:
        leave()


if __name__ == "__main__":
    main()
