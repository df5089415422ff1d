"""The files around the code are true: workflows call targets that exist, images copy files that exist, and so on."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _yaml(path: Path) -> Any:  # noqa: ANN401 - whatever it holds
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in _yaml(path)["jobs"].values():
        yield from job["steps"]


# -- GitHub -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_exists(path: Path) -> None:
    """Every ``make`` has a target, every script a file; actions are pinned, and rights are asked for by name."""
    assert {"name", "permissions", "jobs"} <= _yaml(path).keys()
    commands = [shlex.split(step["run"]) for step in _steps(path) if "run" in step]
    for command in commands:
        if command[0] == "make":
            assert {word for word in command[1:] if "=" not in word} <= _targets()
        if command[0] == "bash":
            assert (ROOT / command[1]).is_file()
    assert {command[0] for command in commands} <= {"make", "bash", "gh"}
    assert all(re.search(r"@v\d", step["uses"]) for step in _steps(path) if "uses" in step)


def test_all_platforms_and_versions_are_tested() -> None:
    """The three systems, and every Python that the package claims."""
    matrix = _yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    claimed = [re.fullmatch(r".*Python :: (3\.\d+)", each) for each in PROJECT["project"]["classifiers"]]
    assert matrix["python"] == [each[1] for each in claimed if each is not None]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_issue_templates(path: Path) -> None:
    """A form as GitHub wants it: a name, a description, and questions with different ids."""
    form = _yaml(path)
    if path.name == "config.yml":
        return
    assert form["name"]
    assert form["description"]
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 0
    assert {part["type"] for part in form["body"]} <= {"markdown", "input", "textarea", "dropdown", "checkboxes"}


def test_pre_commit_runs_what_lint_runs() -> None:
    """Every hook is a tool of ``make lint``."""
    lint = (ROOT / "Makefile").read_text(encoding="utf-8")
    for repository in _yaml(ROOT / ".pre-commit-config.yaml")["repos"]:
        for hook in repository["hooks"]:
            assert hook["entry"].split()[0].replace(".venv/bin", "$(BIN)") in lint


# -- containers -------------------------------------------------------------------------------------------------------


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_copies_files_that_exist() -> None:
    """And that are not left out of the build; the program does not run as root."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for _, rest in [each for each in _instructions() if each[0] == "COPY" and "--from" not in each[1]]:
        *sources, _ = rest.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source.split('/')[0]}" in ignored
    names = [name for name, _ in _instructions()]
    assert names.count("FROM") == 3
    assert names.index("USER", len(names) - 1 - names[::-1].index("FROM")) < names.index("ENTRYPOINT")
    assert dict(_instructions())["USER"] != "root"


def test_the_image_runs_the_program() -> None:
    """Its entry point is the console script, and the command has these options."""
    instructions = dict(_instructions())
    (program,) = yaml.safe_load(instructions["ENTRYPOINT"])
    assert program in PROJECT["project"]["scripts"]
    from typer.testing import CliRunner

    from agenttrace.cli.program import app

    command, *options = yaml.safe_load(instructions["CMD"])
    told = CliRunner().invoke(app, [command, "--help"], terminal_width=120).output
    assert all(option in told for option in options)


def test_compose() -> None:
    """Services and volumes are those that are declared, ports are open to this machine, and no secret stands in it."""
    found = _yaml(ROOT / "compose.yaml")
    for service in found["services"].values():
        assert set(service.get("depends_on", {})) <= found["services"].keys()
        named = [volume.split(":")[0] for volume in service.get("volumes", []) if volume[0].isalpha()]
        assert set(named) <= found["volumes"].keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        for name, value in service["environment"].items():
            assert not re.search("PASSWORD|SECRET|TOKEN", name) or re.fullmatch(r"\$\{[A-Z_]+:\?.+\}", value)
    ours = found["services"]["agenttrace"]["environment"]
    assert all(name in _documented_variables() for name in ours)


def _documented_variables() -> str:
    guides = (ROOT / "docs" / name for name in ("configuration.md", "running-apps.md"))
    return "".join(path.read_text(encoding="utf-8") for path in guides)


# -- documentation ----------------------------------------------------------------------------------------------------


def test_the_site_lists_every_guide() -> None:
    """A page that is not in the navigation is not found."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert yaml.safe_load(text)["strict"] is True


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_links_and_targets_of_the_rules(name: str) -> None:
    """Links lead to files of the project, and ``make`` has the targets that are named."""
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert set(re.findall(r"\bmake ([a-z-]+)`", text)) <= _targets()


# -- packages ---------------------------------------------------------------------------------------------------------


def test_the_package_says_where_it_is_from() -> None:
    """What a package index shows beside the name."""
    assert {"Homepage", "Source", "Issues", "Changelog", "Documentation"} <= PROJECT["project"]["urls"].keys()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locked_packages_have_hashes(path: Path) -> None:
    """Each requirement is one version with at least one hash; no address of an index is in the file."""
    requirements = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    for line in requirements:
        assert re.match(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line
    assert "://" not in path.read_text(encoding="utf-8")


def test_notices_name_what_the_page_is_made_of() -> None:
    """Every library that the page depends on stands in the notices with a licence."""
    notices = ROOT / "src" / "agenttrace" / "console" / "dist" / "third-party-notices.txt"
    if not notices.exists():
        pytest.skip("the console is not built: make console")
    text = notices.read_text(encoding="utf-8")
    named = set(re.findall(r"^## (\S+) - \S+ \((\S.*)\)$", text, re.MULTILINE))
    package = yaml.safe_load((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    assert package["dependencies"].keys() <= {name for name, _ in named}


def test_a_wheel_without_its_console_is_refused(tmp_path: Path) -> None:
    """What ``make release`` checks first."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "agenttrace-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("agenttrace/__init__.py", "")
    (tmp_path / "agenttrace-0.1.0.tar.gz").touch()
    command = [sys.executable, str(ROOT / ".ci" / "check_wheel.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False)
    assert done.returncode == 1
    assert "lacks agenttrace/console/dist/index.html" in done.stderr


def test_every_image_of_the_readmes_is_made() -> None:
    """Both READMEs show the images that ``make screenshots`` makes, and the repository has no others."""
    program = (ROOT / "web" / "screenshots.py").read_text(encoding="utf-8")
    light, dark = (
        set(re.findall(r"\w+", re.findall(rf"^{name} = \((.*)\)$", program, re.MULTILINE)[0]))
        for name in ("LIGHT", "DARK")
    )
    made = {f"{name}.png" for name in light} | {f"{name}-dark.png" for name in dark}
    assert made == {path.name for path in (ROOT / "docs" / "images").iterdir()}
    for name in ("README.md", "README.zh-CN.md"):
        shown = re.findall(r"docs/images/([\w-]+\.png)", (ROOT / name).read_text(encoding="utf-8"))
        assert sorted(shown) == sorted(made)


def test_tests_of_clickhouse_are_where_make_looks_for_them() -> None:
    """``make test-team`` collects some directories only: a test elsewhere would never run."""
    tests = Path(__file__).parent
    makefile = (tests.parent / "Makefile").read_text("utf-8")
    known = re.search(r"^TEAM_TESTS := (.*)$", makefile, re.MULTILINE)
    assert known is not None
    marked = [path for path in tests.rglob("test_*.py") if "mark.team" in path.read_text("utf-8")]
    here = {str(path.relative_to(tests.parent)) for path in marked} - {"tests/test_project.py"}
    assert here
    assert {path for path in here if not path.startswith(tuple(known[1].split()))} == set()
