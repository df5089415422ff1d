"""A server without the run half as a separate process, to be killed: ``python intake_process.py HOME PORT``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from agenttrace.config import ServeSettings, Settings, ensure_home
from agenttrace.serve.app import create_app
from agenttrace.serve.server import serve


async def main(home: Path, port: int) -> None:
    settings = Settings(home=home, serve=ServeSettings(port=port))
    ensure_home(settings)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = create_app(None, settings, problem="not needed here")
    await serve(app, "127.0.0.1", port, stop, on_listening=lambda url: print(url, flush=True))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
