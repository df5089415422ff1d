"""The stories of the demo: short coding conversations, some of them in Chinese."""

from __future__ import annotations

from agenttrace.demo.scenario import Step, Story, Turn, delegate, edit, read, search, shell

_CHECKER = """def alive(url, session):
    answer = session.head(url, timeout=2)
    return answer.status < 400
"""
_FLAKY_OUTPUT = """...........F........
E   TimeoutError: head() took longer than 2 s
1 failed, 19 passed
"""

_FLAKY_TEST = Story(
    title="Flaky link checker test",
    folder="linkcheck",
    branch="main",
    turns=(
        Turn(
            prompt="test_alive fails about once in ten runs on CI. Find out why and fix it.",
            steps=(
                Step(
                    thinking="The code and the test are two things to look at, independent of each other.",
                    text="I'll read the checker and run the test a few times.",
                    calls=(
                        read("linkcheck/checker.py", _CHECKER),
                        shell("pytest -q --count 20 tests", _FLAKY_OUTPUT, failed=True, seconds=6.2),
                        search("timeout=", "linkcheck/checker.py:2:    session.head(url, timeout=2)\n"),
                    ),
                ),
                Step(
                    thinking="The test server sleeps for up to 2.5 s. The limit is the bug, not the test.",
                    text="The test's server may take 2.5 s, but the checker gives up after 2 s. "
                    "I'll make the limit a parameter with a default of 10 s.",
                    calls=(
                        edit(
                            "linkcheck/checker.py",
                            "def alive(url, session):\n    answer = session.head(url, timeout=2)",
                            "def alive(url, session, limit=10):\n    answer = session.head(url, limit)",
                        ),
                    ),
                ),
                Step(calls=(shell("pytest -q --count 50 tests", "50 passed in 41.80s\n", seconds=4.0),)),
                Step(
                    text="Fixed. The checker gave up after 2 s while the test server may need 2.5 s. "
                    "The limit is a parameter now, 10 s by default, and the test passed 50 times in a row."
                ),
            ),
        ),
        Turn(
            prompt="Good. Mention the new parameter in the README, one line.",
            steps=(
                Step(calls=(edit("README.md", "## Usage\n", "## Usage\n\n`alive(url, session, limit=10)`\n"),)),
                Step(text="Done: one line under Usage."),
            ),
        ),
    ),
)

_CONVERT = """def convert(amount, rate):
    # 金额以分为单位
    return int(amount * rate * 100) / 100
"""

_ROUNDING = Story(
    title="汇率换算少了一分钱",
    folder="jizhang",
    branch="fix/rounding",
    turns=(
        Turn(
            prompt="记账小程序里,日元换算成人民币有时会少一分钱。帮我看看是哪里的问题。",
            steps=(
                Step(
                    thinking="多半是浮点数或者截断的问题。先搜索换算函数,再看测试。",
                    text="我先找到换算的代码。",
                    calls=(
                        search("def convert", "jizhang/money.py:14:def convert(amount, rate):\n"),
                        read("jizhang/money.py", _CONVERT),
                    ),
                ),
                Step(
                    thinking="int() 向零截断,0.289 会变成 0.28。应该用 Decimal 并四舍五入。",
                    text="找到了:`int()` 会直接截断小数。改用 `Decimal` 并四舍五入。",
                    calls=(
                        edit(
                            "jizhang/money.py",
                            "    return int(amount * rate * 100) / 100",
                            "    return (Decimal(amount) * rate).quantize(CENT, rounding=ROUND_HALF_UP)",
                        ),
                        shell("python -m pytest -q tests/test_money.py", "18 passed in 0.31s\n", seconds=1.4),
                    ),
                ),
                Step(text="问题出在截断:换算结果没有四舍五入。现在用 `Decimal` 计算,18 个测试全部通过。"),
            ),
        ),
        Turn(
            prompt="历史数据里有多少条受影响?",
            steps=(
                Step(
                    retried=True,
                    text="我统计一下差额不为零的记录。",
                    calls=(shell("python tools/audit.py --currency JPY", "受影响 37 条,合计 0.37 元\n", seconds=2.0),),
                ),
                Step(text="共有 37 条记录受影响,合计少记了 0.37 元。需要的话我可以生成一份更正凭证。"),
            ),
        ),
    ),
)

_SLOWEST = (
    "Slowest of 20 builds: install 6 min 10 s, bundle 3 min 40 s, e2e 2 min 55 s. install downloads all "
    "packages every time; its cache key contains the commit hash."
)

_SLOW_BUILD = Story(
    title="Halve the build time",
    folder="shopfront",
    branch="build-cache",
    turns=(
        Turn(
            prompt="Our CI build takes 14 minutes. Where does the time go? What is cheap to change?",
            steps=(
                Step(
                    thinking="The pipeline and its timings are separate questions. Delegate the timings.",
                    text="I'll have the timings collected first.",
                    calls=(
                        delegate(
                            "Collect job durations of the last 20 builds and name the slowest three.",
                            _SLOWEST,
                            (
                                Step(
                                    thinking="The build log index has durations.",
                                    calls=(shell("./ci/durations --last 20", "install 370\nbundle 220\ne2e 175\n"),),
                                ),
                                Step(calls=(search("key:", "ci/pipeline.yml:22:    key: npm-{{ commit }}\n"),)),
                                Step(text=_SLOWEST),
                            ),
                        ),
                    ),
                ),
                Step(
                    text="The cache key changes with every commit, so nothing is ever reused.",
                    calls=(
                        edit("ci/pipeline.yml", "npm-{{ commit }}", "npm-{{ checksum package-lock.json }}"),
                        shell("./ci/validate ci/pipeline.yml", "ci/pipeline.yml: ok\n"),
                    ),
                ),
                Step(
                    text="Six of the fourteen minutes are package downloads: the cache key contained "
                    "the commit hash. It now depends on the lock file only. I expect about 8 minutes a build."
                ),
            ),
        ),
    ),
)

_LOST_LINES = "两种情况:重命名之后旧句柄里还有缓冲没有刷新;新文件已创建但写入方仍持有旧文件。"

_LOG_ROTATION = Story(
    title="给日志轮转补测试",
    folder="logkeeper",
    branch="main",
    turns=(
        Turn(
            prompt="logkeeper 的轮转逻辑没有测试,请补上,特别是轮转发生在写到一半的时候。",
            steps=(
                Step(
                    thinking="先了解现有实现,可以让子代理整理一下边界情况。",
                    calls=(
                        delegate(
                            "阅读 rotate.py,列出轮转时可能丢行的情况",
                            _LOST_LINES,
                            (
                                Step(
                                    calls=(
                                        read(
                                            "logkeeper/rotate.py",
                                            "def rotate(path):\n    os.rename(path, old)\n",
                                        ),
                                    )
                                ),
                                Step(text=_LOST_LINES),
                            ),
                        ),
                    ),
                ),
                Step(
                    text="我为这两种情况各写一个测试,先确认它们会失败。",
                    calls=(
                        shell("python -m pytest -q tests/test_rotate.py", "2 failed\n", failed=True, seconds=1.2),
                        read("tests/test_rotate.py", "def test_half_written_line(tmp_path): ...\n"),
                    ),
                ),
                Step(
                    thinking="在重命名之前刷新,并且继续读旧文件直到写入方关闭。",
                    calls=(
                        edit(
                            "logkeeper/rotate.py",
                            "    os.rename(path, old)",
                            "    handle.flush()\n    os.rename(path, old)\n    drain(handle)",
                        ),
                        shell("python -m pytest -q tests/test_rotate.py", "2 passed in 0.22s\n", seconds=1.2),
                    ),
                ),
                Step(text="补了两个测试,并修好了它们暴露的问题:轮转前先刷新,旧文件读完再关闭。"),
            ),
        ),
    ),
)

_REFUSED = Story(
    title="Explain the scheduler",
    folder="nightshift",
    branch="main",
    turns=(
        Turn(prompt="How does the scheduler pick the next job?", steps=(), refused=True),
        Turn(
            prompt="Try again: how does the scheduler pick the next job?",
            steps=(
                Step(
                    calls=(
                        read(
                            "nightshift/scheduler.py",
                            "def next_job(queue):\n    return min(queue, key=due)\n",
                        ),
                        search("def due", "nightshift/job.py:31:def due(job):\n"),
                    ),
                ),
                Step(
                    text="It takes the job with the smallest `due` time. Jobs that share a time run in "
                    "the order in which they were added, because `min` keeps the first."
                ),
            ),
        ),
    ),
)

STORIES = (_FLAKY_TEST, _ROUNDING, _SLOW_BUILD, _LOG_ROTATION, _REFUSED)
