"""Tasks that go round for ever still end."""

from __future__ import annotations

import asyncio
import contextlib

from agenttrace.run.background import ended


def test_a_task_that_loses_a_cancellation_ends_all_the_same() -> None:
    """However many cancellations are lost, the task is over afterwards, and so are the others."""
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    async def failing() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise ValueError("nobody wants to know")

    async def main() -> None:
        tasks = [asyncio.create_task(stubborn()), asyncio.create_task(failing())]
        await asyncio.sleep(0)
        await ended(*tasks)
        assert all(task.done() for task in tasks)

    asyncio.run(main())
    assert lost == 3
