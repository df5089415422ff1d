"""The real server process, and the official client in front of it."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple, TextIO

import anyio.from_thread
import anyio.to_thread
from anyio.from_thread import BlockingPortal
from mcp import Client, StdioServerParameters, stdio_client, types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

import forked
from cli.conftest import Program

#: How a client reaches the server that a command starts.
Transport = Callable[[list[str], dict[str, str], TextIO], Any]

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
async def _connected(
    program: Program, arguments: tuple[str, ...], log: Path, mode: Any, transport: Transport
) -> AsyncIterator[Client]:
    command = program.command("mcp", *arguments)
    with log.open("a+", encoding="utf-8") as errors:
        async with Client(transport(command, program.environment, errors), mode=mode) as client:
            await client.list_tools()
            yield client


def started(command: list[str], environment: dict[str, str], errors: TextIO) -> Any:
    """A server that the official client starts, as programs do."""
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=environment), errlog=errors)


@asynccontextmanager
async def forked_server(
    command: list[str], environment: dict[str, str], errors: TextIO
) -> AsyncIterator[TransportStreams]:
    """A server that is forked, see ``forked.py``: the official client would start an interpreter for each."""
    process = forked.popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=errors)
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)
    pipe, _ = await loop.connect_write_pipe(asyncio.Protocol, process.stdin)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_client:
            async for line in lines:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                await to_client.send(SessionMessage(message))

    async def write() -> None:
        async with from_client:
            async for each in from_client:
                pipe.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield from_server, to_server
        pipe.close()
        code = await anyio.to_thread.run_sync(process.wait)
        tasks.cancel_scope.cancel()
    assert code == 0, "the end of input is the end of the server"


@contextmanager
def serving(
    program: Program,
    *arguments: str,
    mode: str = "legacy",
    quiet: bool = True,
    transport: Transport = forked_server,
) -> Iterator[Asker]:
    """A server of this user, and a client; with ``quiet`` it may say nothing on stderr."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "stderr"
        with (
            anyio.from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(_connected(program, arguments, log, mode, transport)) as client,
        ):
            yield Asker(portal, client)
        if quiet:
            assert log.read_text(encoding="utf-8") == ""
