"""The documentation says what is: its links lead somewhere, its commands exist, both READMEs are in step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from agenttrace.cli.program import app
from agenttrace.record.formats import AGENTS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

COMMAND = get_command(app)

_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"`agenttrace ([a-z][^`]*)`")


def commands(path: Path) -> set[str]:
    """The agenttrace commands a document names in its running text."""
    return set(_COMMAND.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a document names a file of the project."""
    targets = [link for link in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in targets if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_anchors_are_headings(path: Path) -> None:
    """The part of a link behind ``#`` is a heading of the document that it leads to."""
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    wrong = [anchor for name, anchor in links if anchor not in _anchors(path.parent / name if name else path)]
    assert wrong == []


def _anchors(path: Path) -> set[str]:
    """The headings of a document as GitHub and MkDocs name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_modules_of_the_architecture_exist() -> None:
    """Every path that the description of the architecture names is a file or directory of the project."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = {path.rstrip("/") for path in re.findall(r"`([\w.*-]+/[\w./*-]*|[\w*]+\.py)`", text)}
    assert [path for path in named if "NAME" not in path and not any(_matches(path))] == []


def _matches(path: str) -> Iterator[Path]:
    for base in (ROOT / "src" / "agenttrace", ROOT):
        yield from base.glob(path)


def test_both_readmes_are_in_step() -> None:
    """The Chinese README has the sections, the links and the commands of the English one."""
    english, chinese = (path.read_text(encoding="utf-8") for path in DOCUMENTS[:2])
    assert len(re.findall(r"^## ", english, re.MULTILINE)) == len(re.findall(r"^## ", chinese, re.MULTILINE))
    theirs = set(_LINK.findall(chinese)) - {"README.md"}
    assert set(_LINK.findall(english)) - {"README.zh-CN.md"} == theirs
    names = [{command.split()[0] for command in commands(path)} for path in DOCUMENTS[:2]]
    assert names[0] == names[1]


def test_the_readmes_count_the_agents_of_the_table() -> None:
    """How many agents are read, and how many of them were tried with real logs, is what the table of agents says."""
    table = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8").split("## Outcomes")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| agent ")]
    agents, tried = len(rows), sum("untested on real logs" not in row for row in rows)
    # The format for programs and received telemetry are no agents.
    assert agents == len({agent.title for agent in AGENTS if agent.name not in ("agenttrace", "otlp")})
    english, chinese = (path.read_text(encoding="utf-8") for path in DOCUMENTS[:2])
    assert f"{agents} agents, {tried} of them" in english
    assert f"{agents} 种智能体，其中 {tried} 种" in chinese


#: Terms that neither the console nor the Chinese README mentions.
ONLY_IN_GUIDES = {"留存线索", "排空", "内部令牌"}


def test_the_glossary_has_the_words_of_the_console() -> None:
    """The Chinese word of every term occurs in the texts of the console or in the Chinese README."""
    texts = [path.read_text(encoding="utf-8") for path in (*(ROOT / "web" / "src").rglob("*.ts"), DOCUMENTS[1])]
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| [^|]+ \| ([^|]+) \| ", glossary, re.MULTILINE)
    words = {word for cell in cells if cell != "Chinese" for word in re.split("[、；]", cell)}
    assert {word for word in words if not any(word in text for text in texts)} == ONLY_IN_GUIDES


def _named_commands() -> list[str]:
    found = {" ".join(_words(command)) for path in DOCUMENTS for command in commands(path)}
    return sorted(found)


def _words(command: str) -> list[str]:
    """The command and, where there is one, its subcommand."""
    words = [word for word in shlex.split(command.replace("…", ""), posix=True) if re.fullmatch(r"[a-z-]+", word)]
    return words[:2] if words[0] in ("quarantine", "service", "export", "prices") else words[:1]


@pytest.mark.parametrize("command", _named_commands())
def test_commands_exist(command: str) -> None:
    """Every command the documentation names has a help page."""
    run = CliRunner().invoke(app, [*command.split(), "--help"])
    assert run.exit_code == 0, run.output


def _lines() -> list[str]:
    """The command lines in the blocks of all documents, without comments."""
    blocks = (
        block
        for path in DOCUMENTS
        for block in re.findall(r"^```(?:sh|console|text)\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
    )
    found = (re.match(r"(?:\$ )?agenttrace ([^#\n]*)", line) for block in blocks for line in block.splitlines())
    return sorted({match[1].strip() for match in found if match})


@pytest.mark.parametrize("line", _lines())
def test_command_lines_have_existing_options(line: str) -> None:
    """Every option of a command line in the documentation is one of that command."""
    words = shlex.split(line)
    command: Any = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    # A group alone stands for one of its commands: `jobs` is `jobs list`.
    parameters = [each for one in (command, *getattr(command, "commands", {}).values()) for each in one.params]
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    options = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    assert options - {"--help"} <= known


def test_the_two_commands_are_there() -> None:
    """The README's two commands are targets of the Makefile, and CI runs the tests by the second."""
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text()
    for target in ("up", "test"):
        assert f"$ make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert re.search(r"^[^#\n]*\bmake\b[^\n]* test\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
