"""How this program was started, so that the commands it advises can be typed."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

#: Environments that uvx and ``pipx run`` make, and remove again.
_UVX = re.compile(r"[/\\]uv[/\\](?:cache[/\\])?(?:archive|builds|environments)-v\d+[/\\]")
_PIPX_RUN = re.compile(r"[/\\]pipx[/\\](?:\.cache[/\\])?[0-9a-f]{12,}$")


def temporary_environment(prefix: str = sys.prefix) -> Literal["uvx", "pipx run"] | None:
    """What runs this program without an installation, if it is not installed."""
    if _UVX.search(prefix):
        return "uvx"
    return "pipx run" if _PIPX_RUN.search(prefix.rstrip("/\\")) else None


def program_line(*, anywhere: bool = False) -> str:
    """The command for this program in another terminal: its name where that is on PATH, else what starts it.

    With ``anywhere`` it works in every directory, not only in this one.
    """
    runner = temporary_environment()
    if runner is not None:
        from agenttrace.views.resume import quoted

        source = _source()
        option = {"uvx": "--from", "pipx run": "--spec"}[runner]
        return f"{runner} {option} {quoted(source)} agenttrace" if source else f"{runner} agenttrace"
    script = None if shutil.which("agenttrace") else _script()
    if script is None:
        return "agenttrace"
    from agenttrace.views.resume import quoted

    return quoted(os.path.abspath(script) if anywhere else os.path.relpath(script))


def _script() -> str | None:
    """The script that started this program; of a process that it started, the one beside its Python."""
    if sys.argv[0].endswith("agenttrace"):
        return sys.argv[0]
    beside = Path(sys.executable).with_name("agenttrace")
    return str(beside) if beside.is_file() else None


def _source() -> str | None:
    """The wheel or directory that it was installed from; ``None`` for the index of packages."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        told = distribution("agenttrace").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(json.loads(told).get("url", "")) if told else urlsplit("")
    return str(Path(url2pathname(url.path))) if url.scheme == "file" else None
