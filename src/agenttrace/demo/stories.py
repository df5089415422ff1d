"""The stories of the demo: short coding conversations, some in Chinese, which every format writes in its own way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

#: Stands for the hash of a commit.
_HASH = "{commit}"


class StoryCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and its result."""

    kind: Literal["shell", "read", "edit", "search", "delegate"]
    #: The command, the path, the pattern, or the task of the subagent.
    subject: str
    output: str = ""
    #: What an edit replaces, and by what.
    old: str = ""
    new: str = ""
    failed: bool = False
    seconds: float = 0.8
    #: The steps of the subagent, for ``delegate``.
    work: tuple[StoryStep, ...] = ()


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One response of the model."""

    thinking: str
    text: str
    calls: tuple[StoryCall, ...]
    #: The first attempt failed, and the agent retried.
    retried: bool

    @property
    def completion_order(self) -> list[int]:
        """The indexes of parallel calls in the order in which their results arrive."""
        return sorted(range(len(self.calls)), key=lambda index: self.calls[index].seconds)


class StoryTurn(msgspec.Struct, frozen=True):
    """A prompt and its steps."""

    prompt: str
    steps: tuple[StoryStep, ...]
    #: True when the provider refused the last request, so that the turn has no answer.
    refused: bool = False
    #: Seconds until the user goes on, where that is long.
    wait: float = 0.0


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session."""

    title: str
    folder: str
    branch: str
    turns: tuple[StoryTurn, ...]
    #: The directory of all projects.
    work: str = "/home/dev"

    @property
    def cwd(self) -> str:
        """The agent's working directory."""
        return f"{self.work}/{self.folder}"

    def committed_as(self, commit: str) -> Story:
        """The story with the hash of its commit, which no other session has."""
        return msgspec.structs.replace(self, turns=tuple(_committed(each, commit) for each in self.turns))

    def followed_by(self, others: Iterable[Story], wait: float) -> Story:
        """One session in which the user goes on with other stories, each after a wait."""
        turns = list(self.turns)
        for other in others:
            turns[-1] = msgspec.structs.replace(turns[-1], wait=wait)
            turns += other.turns
        return msgspec.structs.replace(self, turns=tuple(turns))


def _committed(turn: StoryTurn, commit: str) -> StoryTurn:
    steps = tuple(
        msgspec.structs.replace(
            each,
            calls=tuple(
                msgspec.structs.replace(call, output=call.output.replace(_HASH, commit)) for call in each.calls
            ),
        )
        for each in turn.steps
    )
    return msgspec.structs.replace(turn, steps=steps)


def shell(command: str, output: str, *, failed: bool = False, seconds: float = 0.8) -> StoryCall:
    """Run a command."""
    return StoryCall(kind="shell", subject=command, output=output, failed=failed, seconds=seconds)


def read(path: str, output: str) -> StoryCall:
    """Read a file."""
    return StoryCall(kind="read", subject=path, output=output, seconds=0.1)


def edit(path: str, old: str, new: str) -> StoryCall:
    """Change a file."""
    return StoryCall(kind="edit", subject=path, old=old, new=new, seconds=0.1)


def search(pattern: str, output: str) -> StoryCall:
    """Search the tree."""
    return StoryCall(kind="search", subject=pattern, output=output, seconds=0.3)


def delegate(task: str, report: str, *work: StoryStep) -> StoryCall:
    """Let a subagent do the task; its last step is the report."""
    return StoryCall(kind="delegate", subject=task, output=report, work=(*work, step(report)))


def step(text: str = "", *calls: StoryCall, thinking: str = "", retried: bool = False) -> StoryStep:
    """One response of the model."""
    return StoryStep(thinking=thinking, text=text, calls=calls, retried=retried)


def turn(prompt: str, *steps: StoryStep) -> StoryTurn:
    """A prompt and its steps."""
    return StoryTurn(prompt, steps)


_CHECKER = """def alive(url, session):
    answer = session.head(url, timeout=2)
    return answer.status < 400
"""
_FLAKY_OUTPUT = """...........F........
E   TimeoutError: head() took longer than 2 s
1 failed, 19 passed in 6.02s
"""
_COMMIT = f"""[main {_HASH}] Limit of the checker
 2 files changed, 4 insertions(+), 2 deletions(-)
"""
_CONVERT = """def convert(amount, rate):
    # 金额以分为单位
    return int(amount * rate * 100) / 100
"""

_FLAKY_TEST = (
    turn(
        "test_alive fails about once in ten runs on CI. Find out why and fix it.",
        step(
            "I'll read the checker and run the test a few times.",
            read("linkcheck/checker.py", _CHECKER),
            shell("pytest -q --count 20 tests", _FLAKY_OUTPUT, failed=True, seconds=6.2),
            search("timeout=", "linkcheck/checker.py:2:    session.head(url, timeout=2)\n"),
            thinking="The code and the test are two things to look at, independent of each other.",
        ),
        step(
            "The test's server may take 2.5 s, but the checker gives up after 2 s. "
            "I'll make the limit a parameter with a default of 10 s.",
            edit(
                "linkcheck/checker.py",
                "def alive(url, session):\n    answer = session.head(url, timeout=2)",
                "def alive(url, session, limit=10):\n    answer = session.head(url, limit)",
            ),
            thinking="The test server sleeps for up to 2.5 s. The limit is the bug, not the test.",
        ),
        step("", shell("pytest -q --count 50 tests", "50 passed in 41.80s\n", seconds=4.0)),
        step(
            "Fixed. The checker gave up after 2 s while the test server may need 2.5 s. "
            "The limit is a parameter now, 10 s by default, and the test passed 50 times in a row."
        ),
    ),
    turn(
        "Good. Mention the new parameter in the README, one line.",
        step("", edit("README.md", "## Usage\n", "## Usage\n\n`alive(url, session, limit=10)`\n")),
        step("", shell('git commit -am "Limit of the checker"', _COMMIT)),
        step("Done: one line under *Usage*, and committed."),
    ),
)

_ROUNDING = (
    turn(
        "记账小程序里,日元换算成人民币有时会少一分钱。帮我看看是哪里的问题。",
        step(
            "我先找到换算的代码。",
            search("def convert", "jizhang/money.py:14:def convert(amount, rate):\n"),
            read("jizhang/money.py", _CONVERT),
            thinking="多半是浮点数或者截断的问题。先搜索换算函数,再看测试。",
        ),
        step(
            "找到了:`int()` 会直接截断小数。改用 `Decimal` 并四舍五入。",
            edit(
                "jizhang/money.py",
                "    return int(amount * rate * 100) / 100",
                "    return (Decimal(amount) * rate).quantize(CENT, rounding=ROUND_HALF_UP)",
            ),
            shell("python -m pytest -q tests/test_money.py", "18 passed in 0.31s\n", seconds=1.4),
            thinking="int() 向零截断,0.289 会变成 0.28。应该用 Decimal 并四舍五入。",
        ),
        step("问题出在截断:换算结果没有四舍五入。现在用 `Decimal` 计算,18 个测试全部通过。"),
    ),
    turn(
        "历史数据里有多少条受影响?",
        step(
            "我统计一下差额不为零的记录。",
            shell("python tools/audit.py --currency JPY", "受影响 37 条,合计 0.37 元\n", seconds=2.0),
            retried=True,
        ),
        step("共有 37 条记录受影响,合计少记了 0.37 元。需要的话我可以生成一份更正凭证。"),
    ),
)

_SLOW_BUILD = (
    turn(
        "Our CI build takes 14 minutes. Where does the time go? What is cheap to change?",
        step(
            "I'll have the timings collected first.",
            delegate(
                "Collect job durations of the last 20 builds and name the slowest three.",
                "Slowest of 20 builds: install 6 min 10 s, bundle 3 min 40 s, e2e 2 min 55 s. install downloads all "
                "packages every time; its cache key contains the commit hash.",
                step(
                    "",
                    shell(
                        "CI_PASSWORD=n0t-a-r34l-k3y ./ci/durations --last 20",
                        "install 370\nbundle 220\ne2e 175\n",
                    ),
                    thinking="The build log index has durations.",
                ),
                step("", search("key:", "ci/pipeline.yml:22:    key: npm-{{ commit }}\n")),
            ),
            thinking="The pipeline and its timings are separate questions. Delegate the timings.",
        ),
        step(
            "The cache key changes with every commit, so nothing is ever reused.",
            edit("ci/pipeline.yml", "npm-{{ commit }}", "npm-{{ checksum package-lock.json }}"),
            shell("./ci/validate ci/pipeline.yml", "ci/pipeline.yml: ok\n"),
        ),
        step(
            "Six of the fourteen minutes are package downloads: the cache key contained "
            "the commit hash. It now depends on the lock file only. I expect about 8 minutes a build."
        ),
    ),
)

_LOG_ROTATION = (
    turn(
        "logkeeper 的轮转逻辑没有测试,请补上,特别是轮转发生在写到一半的时候。",
        step(
            "",
            delegate(
                "阅读 rotate.py,列出轮转时可能丢行的情况",
                "两种情况:重命名之后旧句柄里还有缓冲没有刷新;新文件已创建但写入方仍持有旧文件。",
                step("", read("logkeeper/rotate.py", "def rotate(path):\n    os.rename(path, old)\n")),
            ),
            thinking="先了解现有实现,可以让子代理整理一下边界情况。",
        ),
        step(
            "我为这两种情况各写一个测试,先确认它们会失败。",
            shell("python -m pytest -q tests/test_rotate.py", "2 failed in 0.31s\n", failed=True, seconds=1.2),
            read("tests/test_rotate.py", "def test_half_written_line(tmp_path): ...\n"),
        ),
        step(
            "",
            edit(
                "logkeeper/rotate.py",
                "    os.rename(path, old)",
                "    handle.flush()\n    os.rename(path, old)\n    drain(handle)",
            ),
            shell("python -m pytest -q tests/test_rotate.py", "2 passed in 0.22s\n", seconds=1.2),
            thinking="在重命名之前刷新,并且继续读旧文件直到写入方关闭。",
        ),
        step("补了两个测试,并修好了它们暴露的问题:轮转前先刷新,旧文件读完再关闭。"),
    ),
)

_REFUSED = (
    StoryTurn("How does the scheduler pick the next job?", (), refused=True),
    turn(
        "Try again: how does the scheduler pick the next job?",
        step(
            "",
            read("nightshift/scheduler.py", "def next_job(queue):\n    return min(queue, key=due)\n"),
            search("def due", "nightshift/job.py:31:def due(job):\n"),
        ),
        step(
            "It takes the job with the smallest `due` time. Jobs that share a time run in "
            "the order in which they were added, because `min` keeps the first."
        ),
    ),
)

_CURL = "curl --fail --silent --show-error http://127.0.0.1:8080/health"
_NO_ANSWER = "curl: (7) Failed to connect to 127.0.0.1 port 8080 after 0 ms: Couldn't connect to server\n"
_STARTED = f"""[health-check {_HASH}] Wait for the port of the settings
 1 file changed, 1 insertion(+), 1 deletion(-)
"""

_NO_HEALTH = (
    StoryTurn(
        "The health check of the preview server fails after a deploy. Is the server down?",
        (
            step("I'll ask the server.", shell(_CURL, _NO_ANSWER, failed=True)),
            step("It may still be starting; once more.", shell(_CURL, _NO_ANSWER, failed=True)),
            step("", shell(_CURL, _NO_ANSWER, failed=True)),
            step(
                "Three times the same answer: nothing listens on 8080. I'll look at where it should listen.",
                search("port", "preview/settings.toml:3:port = 8090\npreview/health.py:9:PORT = 8080\n"),
                thinking="Asking again will not help. Which port does the server use?",
            ),
            step(
                "The server is up, on port 8090. The health check has a port of its own, 8080. "
                "Shall it read the port of the settings?"
            ),
        ),
        # Longer than a provider keeps a prompt.
        wait=1_260.0,
    ),
    turn(
        "Sorry, I was away. Yes, read it from the settings, and commit.",
        step("", edit("preview/health.py", "PORT = 8080", 'PORT = settings()["port"]')),
        step("", shell("pytest -q tests/test_health.py", "6 passed in 0.44s\n", seconds=1.1)),
        step("", shell('git commit -am "Wait for the port of the settings"', _STARTED)),
        step("Done: the health check asks the port of `preview/settings.toml`; 6 tests pass, and it is committed."),
    ),
)

STORIES = (
    Story(title="Flaky link checker test", folder="linkcheck", branch="main", turns=_FLAKY_TEST),
    Story(title="汇率换算少了一分钱", folder="jizhang", branch="fix/rounding", turns=_ROUNDING),
    Story(title="Halve the build time", folder="shopfront", branch="build-cache", turns=_SLOW_BUILD),
    Story(title="给日志轮转补测试", folder="logkeeper", branch="main", turns=_LOG_ROTATION),
    Story(title="Explain the scheduler", folder="nightshift", branch="main", turns=_REFUSED),
    Story(title="Health check of the preview", folder="preview", branch="health-check", turns=_NO_HEALTH),
)
