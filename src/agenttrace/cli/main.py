"""The entry point: ``statusline`` and ``guard`` without the other commands, as a prompt or an agent waits for them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; expected failures are one line and an exit code."""
    arguments = sys.argv[1:]
    if arguments == ["statusline"] or (arguments[:2] == ["statusline", "--then"] and len(arguments) == 3):
        # The shell waits for it at every prompt: no option parsing.
        from agenttrace.cli.prompt import print_line

        print_line(*arguments[2:])
        return
    if arguments[:2] == ["guard", "--agent"] and len(arguments) == 3:
        # An agent waits for it at every tool call.
        from agenttrace.cli.guard_hook import run as answer

        sys.exit(answer(arguments[2]))
    from agenttrace.cli.program import run
    from agenttrace.cli.stopping import leave

    try:
        sys.exit(run())
    finally:
        leave()


if __name__ == "__main__":
    main()
