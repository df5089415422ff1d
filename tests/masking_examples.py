"""Secrets to be masked, put together when the tests run, so that no file of the project looks as if it held one.

The tables say what vendors issue: how a token begins, of which characters the rest is, how long it is.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Iterator
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "-_"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def made_up(length: int, alphabet: str = ALNUM, seed: object = 1) -> str:
    """Random characters, the same in every run; the first and last are no punctuation."""
    dice = random.Random(f"{seed}-{length}")
    inner = "".join(dice.choice(alphabet) for _ in range(length))
    plain = "".join(mark for mark in alphabet if mark.isalnum())
    return dice.choice(plain) + inner[1:-1] + dice.choice(plain) if length > 1 else inner


def uuid(seed: object = 1) -> str:
    return "-".join(made_up(length, HEX, f"{seed}{length}{place}") for place, length in enumerate((8, 4, 4, 4, 12)))


class Token(NamedTuple):
    """How one kind of token looks."""

    kind: str
    prefix: str
    rest: str

    def __str__(self) -> str:
        return self.prefix + self.rest


def tokens() -> Iterator[Token]:
    """One of each kind that is issued, as its vendor describes it."""
    for kind, prefix, length, alphabet in _PLAIN:
        yield Token(kind, prefix, made_up(length, alphabet, prefix))
    for kind, prefix, rest in _COMPOUND:
        yield Token(kind, prefix, rest)


_PLAIN = (
    ("anthropic-key", "sk-ant-api03-", 95, WORD),
    ("anthropic-key", "sk-ant-admin01-", 95, WORD),
    ("anthropic-key", "sk-ant-oat01-", 95, WORD),
    ("openai-key", "sk-proj-", 156, WORD),
    ("openai-key", "sk-svcacct-", 156, WORD),
    ("openai-key", "sk-admin-", 120, WORD),
    ("api-key", "sk-", 48, ALNUM),  # OpenAI's first keys, Moonshot, SiliconFlow
    ("api-key", "sk-", 32, HEX),  # DeepSeek, DashScope
    ("api-key", "sk-", 22, WORD),  # LiteLLM
    ("openrouter-key", "sk-or-v1-", 64, HEX),
    ("moonshot-key", "sk-kimi-", 64, ALNUM),
    ("dashscope-key", "sk-sp-", 32, ALNUM),
    ("google-key", "AIza", 35, WORD),
    ("groq-key", "gsk_", 52, ALNUM),
    ("xai-key", "xai-", 80, ALNUM),
    ("perplexity-key", "pplx-", 48, ALNUM),
    ("replicate-token", "r8_", 37, ALNUM),
    ("huggingface-token", "hf_", 34, string.ascii_letters),
    ("nvidia-key", "nvapi-", 64, WORD),
    ("fireworks-key", "fw_", 24, ALNUM),
    ("cerebras-key", "csk-", 48, LOWER),
    ("llamacloud-key", "llx-", 48, ALNUM),
    ("jina-key", "jina_", 60, ALNUM),
    ("coze-token", "pat_", 64, ALNUM),
    ("coze-token", "sat_", 64, ALNUM),
    ("sentry-token", "sntryu_", 64, HEX),
    ("newrelic-key", "NRAK-", 27, UPPER),
    ("datadog-key", "ddapp_", 34, ALNUM),
    ("posthog-key", "phx_", 43, ALNUM),
    ("tavily-key", "tvly-", 32, ALNUM),
    ("tavily-key", "tvly-dev-", 32, ALNUM),
    ("firecrawl-key", "fc-", 32, HEX),
    ("brave-key", "BSA", 28, WORD),
    ("e2b-key", "e2b_", 40, HEX),
    ("pinecone-key", "pcsk_", 70, ALNUM + "_"),
    ("github-token", "ghp_", 36, ALNUM),
    ("github-token", "gho_", 36, ALNUM),
    ("github-token", "ghu_", 36, ALNUM),
    ("github-token", "ghs_", 36, ALNUM),
    ("github-token", "ghr_", 76, ALNUM),
    ("github-token", "github_pat_", 82, ALNUM + "_"),
    ("gitlab-token", "glpat-", 20, WORD),
    ("gitlab-token", "glrt-", 20, WORD),
    ("npm-token", "npm_", 36, ALNUM),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc", 150, WORD),
    ("rubygems-key", "rubygems_", 48, HEX),
    ("docker-token", "dckr_pat_", 27, WORD),
    ("atlassian-token", "ATATT3", 186, WORD),
    ("linear-key", "lin_api_", 40, ALNUM),
    ("figma-token", "figd_", 40, WORD),
    ("notion-token", "ntn_", 46, ALNUM),
    ("notion-token", "secret_", 43, ALNUM),
    ("aws-key-id", "AKIA", 16, UPPER),
    ("aws-key-id", "ASIA", 16, UPPER),
    ("google-oauth-token", "ya29.", 150, WORD),
    ("google-oauth-secret", "GOCSPX-", 28, WORD),
    ("google-refresh-token", "1//0", 100, WORD),
    ("alibaba-key-id", "LTAI", 20, ALNUM),
    ("tencent-key-id", "AKID", 32, ALNUM),
    ("volcengine-key-id", "AKLT", 43, ALNUM),
    ("digitalocean-token", "dop_v1_", 64, HEX),
    ("vercel-token", "vcp_", 56, ALNUM),
    ("supabase-key", "sbp_", 40, HEX),
    ("supabase-key", "sb_secret_", 31, WORD),
    ("netlify-token", "nfp_", 36, ALNUM),
    ("databricks-token", "dapi", 32, HEX),
    ("pulumi-token", "pul-", 40, HEX),
    ("vault-token", "hvs.", 95, WORD),
    ("age-key", "AGE-SECRET-KEY-1", 58, UPPER),
    ("slack-token", "xoxb-", 50, ALNUM + "-"),
    ("slack-token", "xoxp-", 70, ALNUM + "-"),
    ("dingtalk-secret", "SEC", 64, HEX),
    ("mailgun-key", "key-", 32, HEX),
    ("twilio-key", "SK", 32, HEX),
    ("stripe-key", "sk_live_", 24, ALNUM),
    ("stripe-key", "sk_test_", 99, ALNUM),
    ("stripe-key", "rk_live_", 24, ALNUM),
    ("stripe-webhook-secret", "whsec_", 32, ALNUM),
    ("elevenlabs-key", "sk_", 48, HEX),
    ("shopify-token", "shpat_", 32, HEX),
    ("shopify-token", "shpss_", 32, HEX),
    ("square-token", "sq0atp-", 22, WORD),
    ("together-key", "tgp_v1_", 43, WORD),
    ("wandb-key", "wandb_v1_", 86, ALNUM),
    ("browserbase-key", "bb_live_", 27, WORD),
    ("sourcegraph-token", "sgp_", 40, HEX),
    ("buildkite-token", "bkua_", 40, HEX),
    ("circleci-token", "CCIPAT_", 63, ALNUM + "_"),
    ("artifactory-key", "AKCp", 69, ALNUM),
    ("aws-bedrock-key", "ABSK", 128, ALNUM + "+/"),
    ("cloudflare-token", "cfut_", 48, ALNUM),
    ("render-key", "rnd_", 28, ALNUM),
    ("fly-token", "fm2_", 200, ALNUM + "+/"),
    ("heroku-key", "HRKU-", 60, WORD),
    ("planetscale-token", "pscale_tkn_", 43, WORD),
    ("1password-token", "ops_eyJ", 300, ALNUM),
)
_COMPOUND = (
    ("langfuse-key", "sk-lf-", uuid("sk-lf")),
    ("langfuse-key", "pk-lf-", uuid("pk-lf")),
    ("langsmith-key", "lsv2_pt_", f"{made_up(32, HEX, 'ls')}_{made_up(10, HEX, 'ls')}"),
    ("langsmith-key", "lsv2_sk_", f"{made_up(32, HEX, 'lk')}_{made_up(10, HEX, 'lk')}"),
    ("grafana-token", "glsa_", f"{made_up(32, ALNUM, 'gl')}_{made_up(8, HEX, 'gl')}"),
    ("gitlab-token", "glpat-", f"{made_up(27, WORD, 'gp')}.01.{made_up(9, LOWER, 'gp')}"),
    ("sendgrid-key", "SG.", f"{made_up(22, WORD, 'sg')}.{made_up(43, WORD, 'sg')}"),
    ("slack-token", "xapp-", f"1-{made_up(11, UPPER, 'xa')}-{made_up(13, string.digits)}-{made_up(64, HEX, 'xa')}"),
    ("cloudflare-key", "v1.0-", f"{made_up(24, HEX, 'cf')}-{made_up(146, HEX, 'cf')}"),
    ("brevo-key", "xkeysib-", f"{made_up(64, HEX, 'br')}-{made_up(16, ALNUM, 'br')}"),
    ("postman-key", "PMAK-", f"{made_up(24, HEX, 'pm')}-{made_up(34, HEX, 'pm')}"),
    ("dynatrace-token", "dt0c01.", f"{made_up(24, UPPER, 'dt')}.{made_up(64, UPPER, 'dt')}"),
    ("doppler-token", "dp.st.", f"dev.{made_up(43, ALNUM, 'dp')}"),
    ("baidu-key", "bce-v3/ALTAK-", f"{made_up(21, ALNUM, 'bc')}/{made_up(40, HEX, 'bc')}"),
    ("telegram-token", "123456789:AA", made_up(33, WORD, "tg")),
    ("mailchimp-key", made_up(32, HEX, "mc"), "-us12"),
    ("azure-secret", "aB38", "Q~" + made_up(33, ALNUM, "az")),
    ("terraform-token", made_up(14, ALNUM, "tf"), ".atlasv1." + made_up(65, WORD, "tf")),
)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def jwt(seed: object = 1) -> str:
    head, body = encoded('{"alg":"HS256","typ":"JWT"}'), encoded('{"sub":"1234567890"}')
    return f"{head}.{body}.{made_up(43, WORD, seed)}"


def discord() -> str:
    return f"{encoded('123456789012345678')}.{made_up(6, ALNUM, 'di')}.{made_up(38, WORD, 'di')}"


def private_key(name: str = "RSA PRIVATE KEY", lines: int = 25, *, ends: bool = True, new_line: str = "\n") -> str:
    rows = [made_up(64, ALNUM + "+/", (name, row)) for row in range(lines)] + [made_up(40, ALNUM, name) + "=="]
    return new_line.join([border("BEGIN", name), *rows, *([border("END", name)] if ends else [])])


def border(which: str, name: str) -> str:
    """The first or the last line of a block."""
    return f"{'-' * 5}{which} {name}{'-' * 5}"
