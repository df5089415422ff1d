"""The meaning of a name: ``DB_PASSWORD`` and ``apiKey`` announce a secret, ``primary_key`` does not."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from agenttrace.masking.values import Doubt


class Meaning(NamedTuple):
    """What a value is, judged by its name alone."""

    kind: str
    doubt: Doubt


#: What a name ends in, if it is that of a secret; upper, lower and title case are all found.
WORDS = (
    *("password", "passWord", "passwd", "passphrase", "passcode", "pwd", "_pass", "-pass"),
    *("secret", "credential", "credentials", "key", "token", "auth", "cookie"),
)
#: The same in Chinese.
CHINESE = {
    **dict.fromkeys(("密码", "口令"), Meaning("password", Doubt.PASSWORD)),
    **dict.fromkeys(("密钥", "秘钥", "令牌"), Meaning("secret", Doubt.SECRET)),
}

#: Words that depend on the word before, and what they are called in a marker.
_KINDS = {"key": "key", "token": "token", "auth": "authorization", "cookie": "cookie", "pat": "token"}
_PASSWORD = Meaning("password", Doubt.PASSWORD)
_SECRET = Meaning("secret", Doubt.SECRET)
_CREDENTIAL = Meaning("credential", Doubt.SECRET)
_AUTHORIZATION = Meaning("authorization", Doubt.SECRET)

#: Words before ``key`` or ``token`` with which it is a secret beyond doubt, and with which it is none.
_SURE_TEXT = """
api app apps access secret private auth oauth encryption encrypt decryption signing sign signature master account
admin root service client session subscription storage shared license bearer refresh personal security bot
user deploy deployment webhook bypass rsa ssh aes hmac jwt crypt cipher consumer openai anthropic claude gemini
google aws azure github gh gitlab slack discord telegram stripe twilio sendgrid mailgun huggingface hf npm pypi
langfuse langsmith langchain cozeloop coze tavily groq xai grok replicate perplexity mistral cohere deepseek
moonshot kimi dashscope bailian qwen zhipu glm minimax volcengine ark datadog dd sentry supabase vercel cloudflare
cf digitalocean shopify alibaba aliyun tencent huawei baidu postgres mysql redis mongo jira linear notion figma
"""
_SURE = frozenset(_SURE_TEXT.split())
_NEVER_TEXT = """
public primary foreign sort cache partition routing object group row hash range index lookup dict map state event
dedup dedupe deduplication idempotency unique composite translation message metadata header column field param
query item issue project shortcut hot arrow modifier any next prev previous page paging pagination continuation
cursor sync eos bos pad unk sep cls mask start stop end begin special first last per cancel cancellation image
input output max min total num count by each natural surrogate config setting option ordering order sorting
binding key token attribute property data label tag topic registry display job task span trace run
websocket socket request lock change update starting forward backward result limit more s
"""
_NEVER = frozenset(_NEVER_TEXT.split())
#: The same without anything between the words: ``apikey``, ``ACCESSTOKEN``; but not ``monkey``.
_GLUED = re.compile(
    r"(?:api|app|access|secret|private|auth|oauth|encryption|signing|master|account|admin|service|client|session"
    r"|subscription|storage|shared|license|refresh|bearer|personal|security|bot|user|id|jwt|github|gitlab|slack|npm)$"
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDING = re.compile(
    r"(?:passw(?:or)?d|passphrase|passcode|pwd|(?<=[a-zA-Z0-9][_-])pass|(?-i:(?<=[a-z0-9])Pass)|secret|credentials?"
    r"|authorization|cookie|key|token|(?<![A-Za-z])(?:auth|pat)|(?-i:(?<=[a-z])(?:Auth|Pat)))$",
    re.IGNORECASE,
)
#: Fields whose fields are all secrets, whatever their names; ``ListSecrets`` is the name of a call.
_CONTAINER = re.compile(
    r"(?!(?i:list|get|put|set|create|delete|update|describe|reset|change|allow|use|send|show|has|is|no|max|num))"
    r"(?:[A-Za-z0-9_.-]*[_.-]|[A-Za-z0-9_.-]*[a-z0-9](?=[A-Z]))?"
    r"(?P<word>(?i:passwords|passphrases|secrets?|cookies?|credentials?|api_?keys|(?:access|refresh)_?tokens|private_?keys"
    r"|stringdata|cookie_?jar))"
)
#: The last words of the names of fields that describe a secret.
_DESCRIPTION_TEXT = """
type kind name id ids user username login email mail host hostname port url uri domain path file filename region zone
project account tenant description title format pattern version provider scope scopes expires expiry expiration at on
date time created updated method mode algorithm alg required optional enabled default properties enum ref label realm
issuer audience backend source arn tag tags resources const comment operation secure only
site status state size length count public role namespace environment
"""
_DESCRIPTION = frozenset(_DESCRIPTION_TEXT.split())
#: A name is at most this long.
LONGEST = 64
_NUMBERED = re.compile(r"[_-]?[0-9]{1,2}$")


def meaning(before: str, word: str) -> Meaning | None:
    """The meaning of a name that ends in ``word``, with the text before it; None if it is not that of a secret."""
    lowered = word.lower()
    if lowered == "secret":
        return _SECRET
    if lowered == "authorization":
        return _AUTHORIZATION
    if lowered.startswith("credential"):
        return _CREDENTIAL
    if lowered not in _KINDS:
        return _PASSWORD
    doubt = _doubt(before, word)
    return Meaning(_KINDS[lowered], doubt) if doubt else None


def _doubt(before: str, word: str) -> Doubt | None:
    """Of a key or a token: it depends on the word before."""
    bare = _bare(word)
    if not before.strip("-_") or not (before[-1].isalnum() or before[-1] in "_-. "):
        return bare
    if before[-1].isalpha() and (before[-1].islower() == word[0].islower()):
        if word.lower() in ("key", "token") and _GLUED.search(before.lower()):
            return Doubt.SECRET
        return Doubt.TOKEN if word.lower() == "token" else None
    parts = _PARTS.findall(before)
    last = parts[-1].lower() if parts else ""
    if last in _NEVER:
        return None
    if last in _SURE:
        return Doubt.SECRET
    # Words apart from each other are a name only where they are known to be: "the key" is just a key.
    return bare if before[-1] == " " or bare is Doubt.TOKEN else Doubt.UNSURE


def _bare(word: str) -> Doubt:
    """How much doubt is left where nothing is known of the word before; ``pat`` is mostly a pattern."""
    if word.lower() == "key":
        return Doubt.KEY
    return Doubt.UNSURE if word in ("pat", "Pat") else Doubt.TOKEN


@lru_cache(maxsize=4096)
def of_field(name: str) -> Meaning | None:
    """The meaning of a field of this name; None if it is not that of a secret."""
    name = _NUMBERED.sub("", name.strip()[-LONGEST:])
    found = _ENDING.search(name)
    if found is None:
        return None
    word = found.group()
    if word.lower() == "cookie":
        return Meaning("cookie", Doubt.SECRET)
    return meaning(name[: found.start()], word)


@lru_cache(maxsize=4096)
def of_container(name: str) -> Meaning | None:
    """The meaning of everything in a field of this name that has fields itself; None if that depends on those."""
    found = _CONTAINER.fullmatch(name[-LONGEST:])
    if found is None:
        return None
    word = found["word"].lower()
    if word.startswith("cookie"):
        return Meaning("cookie", Doubt.TOKEN)  # the theme and the language are cookies, too
    kind = "password" if word.startswith("pass") else "secret"
    return Meaning(kind, Doubt.SECRET if word == name.lower() and word.endswith(("s", "data")) else Doubt.TOKEN)


@lru_cache(maxsize=4096)
def describes(name: str) -> bool:
    """Whether a field among secrets only describes them: ``username``, ``expires_at``."""
    parts = _PARTS.findall(name)
    return bool(parts) and parts[-1].lower() in _DESCRIPTION
