"""Text that compresses like the text in agent logs: prose, source code, terminal output, Chinese.

Words are drawn with Zipf frequencies from a vocabulary of several thousand, so that a full-text index, a
compressor and a tokenizer get a realistic distribution. Random bytes or one repeated sentence would give wrong
results.
"""

from __future__ import annotations

import random
from itertools import accumulate, product

_COMMON = """
the of and to a in is that it for on as with this be by are from or an at not have if we can will which one
all when there file test code use but so then you should function call value was now need line error has first
only new run more set return no add into they each does same other read after make check before here because
still also two its out like type case list where what change how just than them way instead without some any
both between until once already while since about every name data part order most path write even keep time
work small back down over under again against around across another through however therefore otherwise
probably maybe likely currently actually exactly simply directly finally later below above next last old long
short fast slow right wrong good clean safe full empty missing extra unused wide narrow deep local global
public private internal external
"""

_STEMS = """
cache token parse build fetch queue lock thread socket buffer stream batch index query schema table row column
cursor shard replica leader quorum epoch digest cipher nonce header payload cookie session request response
route handler filter guard limit budget retry timeout backoff breaker circuit probe gauge metric trace span
event signal hook plugin module package import export bundle layout widget canvas shader vertex pixel frame
layer render commit branch merge rebase patch hunk diff blame remote origin deploy release rollout canary
staging cluster node pod volume mount secret config profile flag option switch toggle field record struct
tuple vector matrix tensor kernel gradient loss sampler tokenizer prompt context window turn agent tool model
usage price ledger invoice account tenant region zone bucket object blob archive snapshot journal segment
offset fingerprint inode symlink folder glob regex pattern match scan walk visit parser lexer grammar symbol
scope closure lambda iterator generator future promise task worker pool executor scheduler timer clock tick
delay jitter slide wait notify wake sleep
"""

_PREFIXES = ("", "re", "pre", "un", "de", "sub", "multi", "auto", "co", "over", "inter", "micro", "non")
_SUFFIXES = ("", "s", "ed", "ing", "er", "able", "less", "ness", "like", "ful", "wise", "ly")

_CHINESE = """
这个函数 需要 检查 缓存 是否 已经 过期 然后 重新 读取 文件 偏移量 如果 指纹 不一致 就 从头 开始
测试 全部 通过 但是 日志 里 仍然 有 一个 警告 我们 应该 先 修复 数据库 连接 池 的 泄漏 问题 再 提交
代码 请 帮我 看一下 为什么 会 超时 接口 返回 错误 状态码 可能 因为 重试 次数 不够 建议 增加 退避
时间 并且 记录 每次 调用 的 令牌 用量 会话 恢复 之后 历史 消息 被 重复 计算 去重 逻辑 使用 事件
编号 作为 唯一 键 事务 提交 失败 时 回滚 保证 不丢失 不重复
"""

_CODE_LINES = (
    "def {a}_{b}(self, {c}: str, *, {d}: int = {n}) -> {t} | None:\n",
    '    """Return the {a} of every {b} that {c} has not seen."""\n',
    "    for {a}, {b} in enumerate(self._{c}.{d}()):\n",
    "        if {a}.{b} is None or {a}.{b} < {n}:\n",
    "            continue\n",
    '        self._{a}[{b}] = {c}.get("{d}", {n})\n',
    "    {a} = await self.{b}_{c}({d}, timeout={n})\n",
    '    raise {t}Error(f"{a} {{{b}}} has no {c}: {{{d}!r}}")\n',
    "    return {t}({a}={b}, {c}=self.{d})\n",
    "\n",
    "    with self._{a}_lock:\n",
    "        {a}.append(({b}, {c}, {n}))\n",
    "from .{a} import {t}, {b}_{c}\n",
    'logger = logging.getLogger("{a}.{b}")\n',
    "@pytest.mark.parametrize('{a}', [{n}, {m}, None])\n",
    "    assert {a}.{b}({c}) == {n}\n",
    "export const {a}{t} = ({b}: {t}): Promise<{t}[]> => {{\n",
    "  const {a} = use{t}({b}, {{ {c}: {n}, {d}: true }});\n",
    "  return {a}.map(({b}) => ({{ ...{b}, {c}: `${{{b}.{d}}}` }}));\n",
    "}};\n",
    "        # {b} is counted before {a}, because a {c} may arrive twice\n",
    "    try:\n",
    "        {a} = json.loads({b}.{c}_text)\n",
    "    except ({t}Error, KeyError) as error:\n",
    "        {a}.{b}(error, {c}={n})\n",
)

_TERMINAL_LINES = (
    "tests/{a}/test_{b}.py::test_{c}_{d} PASSED                              [ {p}%]\n",
    "tests/{a}/test_{b}.py::test_{c}_is_{d} PASSED                           [ {p}%]\n",
    'src/{a}/{b}_{c}.py:{n}:{p}: error: Argument {p} to "{d}" has incompatible type "{t}"\n',
    "-rw-r--r-- 1 dev dev {m} Sep {p} 11:{p} {a}_{b}.py\n",
    "{h} {a}: {b} the {c} before the {d}\n",
    "src/{a}/{b}.py:{n}:    {c} = self.{d}({m})\n",
    " src/{a}/{b}_{c}.py | {p} +++++-----\n",
    "2026-09-{p}T10:{p}:{p}.{n}Z INFO {a}.{b} {c}={m} {d}={n}\n",
)


def _vocabulary() -> list[str]:
    """6,000 words: common words first, then stems, then stems with prefixes and suffixes."""
    stems = list(dict.fromkeys(_STEMS.split()))
    made = [prefix + stem + suffix for prefix, suffix, stem in product(_PREFIXES, _SUFFIXES, stems)]
    return list(dict.fromkeys(_COMMON.split() + stems + made))[:6000]


def rare_word() -> str:
    """A rare word."""
    return _vocabulary()[-2]


def _punctuated(number: int, word: str) -> str:
    return word + ("." if number % 13 == 12 else "," if number % 17 == 16 else "")


class Text:
    """A seeded source of every kind of text."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        words = _vocabulary()
        self._words = [_punctuated(number, word) for number, word in enumerate(words)]
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))
        self._chinese = _CHINESE.split()
        self._names = [word for word in words if len(word) > 3]
        self._name_weights = list(accumulate(1 / (rank + 20) for rank in range(len(self._names))))
        self._types = [word.capitalize() for word in words[200:400]]

    def prose(self, characters: int) -> str:
        """English sentences of about this length."""
        words = self._rng.choices(self._words, cum_weights=self._weights, k=max(1, characters // 6))
        return " ".join(words).capitalize()

    def chinese(self, characters: int) -> str:
        """Chinese sentences of about this many characters."""
        return "".join(self._rng.choices(self._chinese, k=max(1, characters // 2)))

    def code(self, characters: int) -> str:
        """Source code of about this length."""
        return self._fill(_CODE_LINES, characters)

    def terminal(self, characters: int) -> str:
        """Output of test runs, linters and listings."""
        return self._fill(_TERMINAL_LINES, characters)

    def path(self) -> str:
        """A file name inside a project."""
        a, b, c = self.names(3)
        return f"src/{a}/{b}_{c}.py"

    def names(self, count: int) -> list[str]:
        """Words that could be identifiers."""
        return self._rng.choices(self._names, cum_weights=self._name_weights, k=count)

    def _fill(self, templates: tuple[str, ...], characters: int) -> str:
        count = max(1, characters // 48)
        names, types = iter(self.names(4 * count)), iter(self._rng.choices(self._types, k=count))
        lines = []
        for template in self._rng.choices(templates, k=count):
            a, b, c, d, number = next(names), next(names), next(names), next(names), self._rng.getrandbits(14)
            shape = {"n": number, "m": number * 7 + 13, "p": number % 50 + 10, "h": f"{number * 7919:07x}"}
            lines.append(template.format(a=a, b=b, c=c, d=d, t=next(types), **shape))
        return "".join(lines)


def numbered(lines: list[str], first: int) -> str:
    """Source code as a Read tool prints it, with line numbers."""
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, first))
