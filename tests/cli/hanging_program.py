"""``agenttrace`` with work that never ends, to be stopped: ``python hanging_program.py KIND ARGUMENT...``.

Spans that are sent to it make it hang: in the thread that takes them (``intake``), in one that reads the store
(``reader``), in one of the loop's own (``loop``), or in the loop itself (``busy``).
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from agenttrace.cli import main, stopping
from agenttrace.serve.intake import body, signals
from agenttrace.serve.intake.router import Intake


def hang(*_: object) -> Any:  # noqa: ANN401 - never returns
    sys.stderr.write("hanging\n")
    sys.stderr.flush()
    threading.Event().wait()


async def in_reader(intake: Intake, *_: object) -> Any:  # noqa: ANN401
    await intake._context.reader.query(hang, empty=hang)


async def in_loop_thread(*_: object) -> Any:  # noqa: ANN401
    await asyncio.to_thread(hang)


async def in_loop(*_: object) -> Any:  # noqa: ANN401
    sys.stderr.write("hanging\n")
    while True:
        pass


if __name__ == "__main__":
    stopping.CLOSING_SECONDS = 1.0
    kind = sys.argv.pop(1)
    if kind == "intake":
        body.READERS[signals.TRACES][body.JSON] = hang
    else:
        Intake._taken = {"reader": in_reader, "loop": in_loop_thread, "busy": in_loop}[kind]  # type: ignore[method-assign, assignment]
    main.main()
