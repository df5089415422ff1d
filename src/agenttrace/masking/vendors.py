"""Keys and tokens that begin with the prefix of their vendor.

A row for each: what it is called in a marker, how it begins, and what follows. Lengths are those that are issued
today, or less where they have changed before.
"""

from __future__ import annotations

import re

from agenttrace.masking.rule import LEFT, RIGHT, Rule, Secret
from agenttrace.masking.values import looks_random

_A = "[A-Za-z0-9]"
_W = "[A-Za-z0-9_-]"
_H = "[0-9a-fA-F]"
_UUID = f"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"

#: Of several with the same prefix the first counts.
TOKENS: tuple[tuple[str, str, str], ...] = (
    # Models
    ("anthropic-key", "sk-ant-", rf"{_W}{{20,}}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rf"{_W}{{20,}}"),
    ("openrouter-key", "sk-or-v1-", rf"{_H}{{32,}}"),
    ("moonshot-key", "sk-kimi-", rf"{_W}{{20,}}"),
    ("dashscope-key", "sk-sp-", rf"{_W}{{20,}}"),
    ("langfuse-key", "sk-lf- pk-lf-", _UUID),
    ("google-key", "AIza", rf"{_W}{{35}}"),
    ("google-key", "AQ.Ab", rf"{_W}{{40,}}"),
    ("groq-key", "gsk_", rf"{_A}{{20,}}"),
    ("xai-key", "xai-", rf"{_A}{{20,}}"),
    ("perplexity-key", "pplx-", rf"{_A}{{20,}}"),
    ("replicate-token", "r8_", rf"{_A}{{30,}}"),
    ("huggingface-token", "hf_", rf"{_A}{{30,}}"),
    ("huggingface-token", "api_org_", rf"{_A}{{30,}}"),
    ("nvidia-key", "nvapi-", rf"{_W}{{20,}}"),
    ("fireworks-key", "fw_", rf"{_A}{{22,}}"),
    ("cerebras-key", "csk-", rf"{_A}{{32,}}"),
    ("together-key", "tgp_v1_", rf"{_W}{{32,}}"),
    ("llamacloud-key", "llx-", rf"{_A}{{32,}}"),
    ("jina-key", "jina_", rf"{_W}{{32,}}"),
    ("baidu-key", "bce-v3/ALTAK-", rf"{_A}{{16,}}/{_H}{{32,}}"),
    # Observability
    ("langsmith-key", "lsv2_", rf"(?:pt|sk)_{_A}{{20,}}(?:_{_A}+)?"),
    ("langsmith-key", "ls__", rf"{_H}{{32}}"),
    ("coze-token", "pat_ sat_ cztei_ czs_", rf"{_A}{{40,}}"),
    ("sentry-token", "sntrys_", r"[A-Za-z0-9_=+/-]{40,}"),
    ("sentry-token", "sntryu_", rf"{_H}{{64}}"),
    ("grafana-token", "glsa_", rf"{_A}{{32}}_{_H}{{8}}"),
    ("grafana-token", "glc_eyJ", r"[A-Za-z0-9+/=]{30,}"),
    ("newrelic-key", "NRAK-", r"[A-Z0-9]{27}"),
    ("datadog-key", "ddapp_", rf"{_A}{{34,}}"),
    ("posthog-key", "phx_", rf"{_W}{{40,}}"),
    ("dynatrace-token", "dt0c01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("wandb-key", "wandb_v1_", rf"{_W}{{40,}}"),
    # Search and browsing
    ("tavily-key", "tvly-", rf"(?:dev-|prod-)?{_W}{{16,}}"),
    ("firecrawl-key", "fc-", rf"{_H}{{32}}"),
    ("brave-key", "BSA", rf"{_W}{{28}}"),
    ("e2b-key", "e2b_", rf"{_H}{{40}}"),
    ("browserbase-key", "bb_live_ bb_test_", rf"{_W}{{20,}}"),
    ("pinecone-key", "pcsk_", rf"{_W}{{40,}}"),
    # Code
    ("github-token", "ghp_ gho_ ghu_ ghr_", rf"{_A}{{30,}}"),
    ("github-token", "ghs_", rf"[A-Za-z0-9_]{{30,}}(?:\.{_W}{{8,}}){{0,2}}"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    (
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas-",
        rf"{_W}{{20,}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{7,}})?",
    ),
    ("npm-token", "npm_", rf"{_A}{{36}}"),
    ("pypi-token", "pypi-AgE", rf"{_W}{{50,}}"),
    ("rubygems-key", "rubygems_", rf"{_H}{{48}}"),
    ("docker-token", "dckr_pat_ dckr_oat_", rf"{_W}{{20,}}"),
    ("postman-key", "PMAK-", rf"{_H}{{24}}-{_H}{{34}}"),
    ("atlassian-token", "ATATT3 ATCTT3 ATSTT3", r"[A-Za-z0-9_=-]{40,}"),
    ("linear-key", "lin_api_ lin_oauth_", rf"{_A}{{32,}}"),
    ("sourcegraph-token", "sgp_", r"[0-9a-f_]{40,}"),
    ("buildkite-token", "bkua_", rf"{_H}{{40}}"),
    ("circleci-token", "CCIPAT_", rf"{_W}{{40,}}"),
    ("figma-token", "figd_", rf"{_W}{{32,}}"),
    ("notion-token", "ntn_ secret_", rf"{_A}{{40,}}"),
    ("artifactory-key", "AKCp", rf"{_A}{{69,}}"),
    # Clouds
    ("aws-key-id", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}"),
    ("aws-bedrock-key", "ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("google-oauth-token", "ya29.", rf"{_W}{{20,}}"),
    ("google-oauth-secret", "GOCSPX-", rf"{_W}{{28}}"),
    ("google-refresh-token", "1//0", rf"{_W}{{30,}}"),
    ("alibaba-key-id", "LTAI", rf"{_A}{{12,24}}"),
    ("tencent-key-id", "AKID", rf"{_A}{{32,}}"),
    ("volcengine-key-id", "AKLT", rf"{_A}{{30,}}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{_H}{{64}}"),
    ("cloudflare-token", "cfut_ cfat_ cfk_", rf"{_W}{{40,}}"),
    ("cloudflare-key", "v1.0-", rf"{_H}{{24}}-{_H}{{146}}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", rf"{_A}{{24,}}"),
    ("vercel-token", "vercel_blob_rw_", r"[A-Za-z0-9_]{24,}"),
    ("supabase-key", "sbp_", rf"{_H}{{40}}"),
    ("supabase-key", "sb_secret_", rf"{_W}{{20,}}"),
    ("netlify-token", "nfp_", rf"{_A}{{36,}}"),
    ("render-key", "rnd_", rf"{_A}{{28,}}"),
    ("fly-token", "fm1r_ fm2_ fo1_", r"[A-Za-z0-9+/=_-]{40,}"),
    ("heroku-key", "HRKU-", rf"{_W}{{36,}}"),
    ("databricks-token", "dapi", rf"{_H}{{32}}(?:-[0-9])?"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_=-]{32,}"),
    ("pulumi-token", "pul-", rf"{_H}{{40}}"),
    ("vault-token", "hvs. hvb. hvr.", rf"{_W}{{24,}}"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", rf"(?:{_W}{{2,35}}\.)?{_A}{{40,}}"),
    ("1password-token", "ops_eyJ", r"[A-Za-z0-9+/=_-]{100,}"),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    # Messages and money
    (
        "slack-token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxb- xoxe.xoxp-",
        r"[A-Za-z0-9%-]{10,}",
    ),
    ("slack-token", "xapp-", r"[0-9]-[A-Z0-9]+-[0-9]+-[A-Za-z0-9]{20,}"),
    ("dingtalk-secret", "SEC", rf"{_H}{{64}}"),
    ("sendgrid-key", "SG.", rf"{_W}{{16,}}\.{_W}{{16,}}"),
    ("mailgun-key", "key-", rf"{_H}{{32}}"),
    ("brevo-key", "xkeysib-", rf"{_H}{{64}}-{_A}{{16}}"),
    ("twilio-key", "SK", r"[0-9a-f]{32}"),
    ("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", rf"{_A}{{16,}}"),
    ("stripe-webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    ("elevenlabs-key", "sk_", rf"{_H}{{48}}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", rf"{_H}{{32}}"),
    ("square-token", "sq0atp- sq0csp- sq0idp-", rf"{_W}{{22,}}"),
)
#: OpenAI's first keys, DeepSeek, DashScope, Moonshot, SiliconFlow, LiteLLM and many others.
#: Judged by its beginning, and read to its end only if it is one.
_SK = re.compile(rf"{LEFT}sk-(?P<body>{_W}{{16,128}}+)")
_SK_REST = re.compile(rf"{_W}*+")
_ONE_PIECE = re.compile(rf"{_A}{{20}}")
#: Not a token: sk-xxxxxxxxxxxx.
_BLANK = re.compile(r"[xX]{8}")


def _token(kind: str, prefixes: str, body: str) -> Rule:
    anchors = tuple(prefixes.split())
    pattern = re.compile(rf"{LEFT}(?:{'|'.join(map(re.escape, anchors))})(?P<body>{body}){RIGHT}")

    def look(text: str, start: int, end: int) -> Secret | None:
        found = pattern.match(text, start)
        if found is None or _BLANK.search(found["body"]):
            return None
        return Secret(start, found.end(), kind)

    return Rule(anchors, look)


def _look_sk(text: str, start: int, end: int) -> Secret | None:
    """``sk-`` also begins words such as ``sk-estimator-doc-link``, so what follows has to look like a key."""
    found = _SK.match(text, start)
    if found is None or _BLANK.search(found["body"]):
        return None
    if not _ONE_PIECE.match(found["body"]) and not looks_random(found["body"]):
        return None
    rest = _SK_REST.match(text, found.end())
    return Secret(start, rest.end() if rest else found.end(), "api-key")


RULES = (*(_token(*row) for row in TOKENS), Rule(("sk-",), _look_sk))
