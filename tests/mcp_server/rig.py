"""The real server process, and the official client in front of it."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio.from_thread
from anyio.from_thread import BlockingPortal
from mcp import Client, StdioServerParameters, stdio_client, types

from cli.conftest import Program

_FENCE = re.compile(r"^(`{3,})text$")
_NEXT = re.compile(r'cursor="([^"]+)"\)$', re.MULTILINE)


class ToolError(Exception):
    """A tool said that it could not answer, and what to do."""


class Asker:
    """Calls tools of a server, one after the other."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self.client = portal, client

    def result(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """What came back."""
        found: types.CallToolResult = self._portal.call(self.client.call_tool, tool, dict(arguments))
        return found

    def fields(self, tool: str, **arguments: Any) -> Any:
        """The answer of a tool that answers in fields; its text says the same."""
        found = self._good(tool, arguments)
        assert json.loads(texts(found)[0]) == found.structured_content
        return found.structured_content

    def blocks(self, tool: str, **arguments: Any) -> list[str]:
        """The answer of a tool that answers in Markdown."""
        return texts(self._good(tool, arguments))

    def _good(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        found = self.result(tool, arguments)
        if found.is_error:
            raise ToolError("\n".join(texts(found)))
        return found

    def call(self, function: Any, *arguments: Any) -> Any:
        """Anything else that the client can do."""
        return self._portal.call(function, *arguments)

    def pages(self, tool: str, most: int = 10_000, **arguments: Any) -> Iterator[list[str]]:
        """All pages of a text, each asked for as the one before says."""
        fixed = {name: given for name, given in arguments.items() if name in ("session", "span", "max_chars")}
        for _ in range(most):
            blocks = self.blocks(tool, **arguments)
            yield blocks
            following = _NEXT.search(blocks[-1])
            if following is None:
                return
            arguments = {**fixed, "cursor": following[1]}
        raise AssertionError("pages without an end")

    def listed(self, tool: str, name: str, most: int = 1_000, **arguments: Any) -> Iterator[list[Any]]:
        """All pages of a list."""
        for _ in range(most):
            found = self.fields(tool, **arguments)
            yield found[name]
            if "next_cursor" not in found:
                return
            arguments["cursor"] = found["next_cursor"]
        raise AssertionError("pages without an end")


def texts(result: types.CallToolResult) -> list[str]:
    """The texts of an answer."""
    found = [block.text for block in result.content if isinstance(block, types.TextContent)]
    assert len(found) == len(result.content)
    return found


class Said(NamedTuple):
    """A line of a transcript, or a text with its label."""

    line: str
    text: str | None


def parsed(markdown: str) -> list[Said]:
    """The lines and texts of a page, parsed as Markdown."""
    lines = iter(markdown.split("\n"))
    found: list[Said] = []
    for line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            if line:
                found.append(Said(line, None))
            continue
        inside: list[str] = []
        for each in lines:
            if each == fence[1]:
                break
            inside.append(each)
        else:
            raise AssertionError("a fence without an end")
        found[-1] = Said(found[-1].line.removesuffix(":"), "\n".join(inside))
    return found


def joined(pages: list[list[Said]]) -> list[Said]:
    """The pages as one: what goes on stands where it began."""
    found: list[Said] = []
    for page in pages:
        for number, said in enumerate(page):
            if said.text is not None and said.line.endswith(" (continued)"):
                assert number == 0, "only the first text of a page goes on from the one before"
                before = found[-1]
                assert before.line == said.line.removesuffix(" (continued)")
                assert before.text is not None
                found[-1] = Said(before.line, before.text + said.text)
            else:
                found.append(said)
    return found


@asynccontextmanager
async def _connected(program: Program, arguments: tuple[str, ...], log: Path, mode: Any) -> AsyncIterator[Client]:
    command = program.command("mcp", *arguments)
    server = StdioServerParameters(command=command[0], args=command[1:], env=program.environment)
    with log.open("a+", encoding="utf-8") as errors:
        async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
            await client.list_tools()
            yield client


@contextmanager
def serving(program: Program, *arguments: str, mode: str = "legacy", quiet: bool = True) -> Iterator[Asker]:
    """A server of this user, and a client; with ``quiet`` it may say nothing on stderr."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "stderr"
        with (
            anyio.from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(_connected(program, arguments, log, mode)) as client,
        ):
            yield Asker(portal, client)
        if quiet:
            assert log.read_text(encoding="utf-8") == ""
