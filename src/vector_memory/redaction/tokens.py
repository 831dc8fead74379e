"""Tokens that are recognized by how they begin."""

import re

from vector_memory.redaction.judging import any_value
from vector_memory.redaction.rule import WORD_STARTS, Rule, labelled, prefixed

KEY_BODY = r"""
    -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?>(?:(?>(?:\s|\\[nr])*)[\w-]{1,30}:\ \S{1,100})*)
    (?P<secret>
        (?:(?>(?:\s|\\[nr]|["'+,])*)[A-Za-z0-9+/]{16,}+={0,2})+
        (?:(?>(?:\s|\\[nr]|["'+,])*)=?[A-Za-z0-9+/]{1,15}={0,2}(?=(?>(?:\s|\\[nr]|["'+,])*)-----END))?
    )
"""

TOKENS = (
    labelled("private key", "-----begin", KEY_BODY, any_value),
    prefixed("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,251}"),
    prefixed("GitHub token", "github_pat_", r"[A-Za-z0-9_]{40,255}"),
    prefixed("GitLab token", "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glagent-", r"[\w.-]{20,300}"),
    prefixed("AWS access key id", "AKIA ASIA", r"(?![A-Z0-9]*EXAMPLE)[A-Z2-7]{16}"),
    prefixed("Anthropic key", "sk-ant-", r"[\w-]{32,300}"),
    prefixed("OpenAI key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{32,300}"),
    prefixed("API key", "sk-or-v1- gsk_ pplx- xai- r8_ fw_ tvly- lsv2_pt_ lsv2_sk_ nvapi- csk-", r"[\w-]{30,300}"),
    prefixed("OpenAI key", "sk-", r"[A-Za-z0-9]{32,200}"),
    prefixed("Slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{20,300}"),
    labelled("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/\w{1,12}/ (?P<secret>[\w/]{20,120})", any_value),
    labelled("Discord webhook", "/api/webhooks/", r"/api/webhooks/\d{15,20}/ (?P<secret>[\w-]{30,120})", any_value),
    prefixed("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{16,250}"),
    prefixed("webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,200}"),
    prefixed("Google API key", "AIza", r"[\w-]{35}"),
    prefixed("Google client secret", "GOCSPX-", r"[\w-]{20,60}"),
    prefixed("Google access token", "ya29.", r"[\w-]{20,2000}"),
    prefixed("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    prefixed("PyPI token", "pypi-AgE", r"[\w-]{50,1000}"),
    prefixed("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    prefixed("Docker token", "dckr_pat_ dckr_oat_", r"[\w-]{20,100}"),
    prefixed("SendGrid key", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}"),
    prefixed("Mailgun key", "key-", r"[0-9a-f]{32}"),
    prefixed("Twilio key", "SK", r"[0-9a-f]{32}"),
    prefixed("Hugging Face token", "hf_ api_org_", r"[A-Za-z]{34}"),
    prefixed("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    prefixed("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    prefixed("Databricks token", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    prefixed("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[\w.-]{40,80}"),
    prefixed("Vault token", "hvs. hvb. hvr.", r"[\w-]{24,300}"),
    prefixed("Linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}"),
    prefixed("Notion token", "ntn_", r"[A-Za-z0-9]{40,60}"),
    prefixed("Figma token", "figd_ figo_", r"[\w-]{36,60}"),
    prefixed("Airtable token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    prefixed("Grafana token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    prefixed("Grafana token", "glc_eyJ", r"[A-Za-z0-9+/=]{32,400}"),
    prefixed("New Relic key", "NRAK- NRJS- NRII-", r"[\w-]{19,48}"),
    prefixed("Sentry token", "sntrys_ sntryu_", r"[\w+/=-]{40,400}"),
    prefixed("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    prefixed("Supabase key", "sbp_ sb_secret_", r"[\w-]{20,80}"),
    prefixed("Atlassian token", "ATATT3 ATCTT3 ATBB ATSTT3", r"[\w=-]{24,300}"),
    prefixed("Square token", "sq0atp- sq0csp- sq0idp-", r"[\w-]{22,50}"),
    prefixed("Pulumi token", "pul-", r"[0-9a-f]{40}"),
    prefixed("PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{32,64}"),
    prefixed("Tailscale key", "tskey-", r"[a-z]{1,10}-[A-Za-z0-9-]{20,80}"),
    prefixed("age key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    prefixed("Facebook token", "EAACE EAAG EAAB", r"[A-Za-z0-9]{60,300}"),
    prefixed("Dynatrace token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    prefixed("GitLab token", "glimt- gloas- glffct- glwt- GR1348941", r"[\w.-]{20,300}"),
    prefixed("HubSpot token", "pat-na pat-eu pat-ap", r"\d-(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"),
    prefixed("Mapbox token", "sk.eyJ tk.eyJ pk.eyJ", r"[\w-]{20,400}\.[\w-]{20,60}"),
    prefixed("Bedrock key", "bedrock-api-key-", r"[A-Za-z0-9+/=]{28,4000}"),
    prefixed("Alibaba access key id", "LTAI", r"[A-Za-z0-9]{12,24}"),
    prefixed("Brevo key", "xsmtpsib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    prefixed("Sourcegraph token", "sgp_", r"(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}"),
    prefixed("Flutterwave key", "FLWSECK-", r"[A-Za-z0-9]{32}-X"),
    prefixed("Fly token", "fm1r_ fm1a_ fm2_ fo1_", r"[\w+/-]{40,4000}={0,3}"),
    labelled("Okta token", "ssws", r"(?<![a-z0-9])ssws\s{1,3}(?P<secret>[\w=-]{30,60})(?![\w-])", any_value, 3.0),
    labelled(
        "PagerDuty key",
        "pagerduty|pager_duty|pd_",
        r"""(?<![a-z0-9])(?:pager_?duty|pd)[\ \w.-]{0,30}? (?:key|token)
        [\ "'`]{0,3}[:=][\ "'`]{0,3} (?P<secret>[uy][+_][\w+-]{18}|[a-z0-9]{20}|[0-9a-f]{32})(?![\w-])""",
        any_value,
        3.0,
    ),
    labelled(
        "Teams webhook",
        ".webhook.office.com/",
        r"\.webhook\.office\.com/webhookb?2?/(?P<secret>[\w@/-]{60,300}+)",
        any_value,
    ),
    Rule(
        "Azure client secret",
        ("Q~",),
        rf"{WORD_STARTS}(?P<secret>[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}})(?![\w~-])",
        re.NOFLAG,
        3.0,
        any_case=False,
        before=4,
    ),
    labelled("Telegram token", ":aa", r"(?<=\d{8}) (?P<secret>:AA[\w-]{32,34}) (?![\w-])", any_value, 3.0),
    # Not in the middle of a word with `_`: it would be read to its end from each `eyJ`.
    Rule(
        "JSON web token",
        ("eyJ",),
        r"(?<![\w-])(?P<secret>eyJ[\w-]{8,8192}+\.[\w-]{8,8192}+\.[\w-]{8,8192}+)",
        re.NOFLAG,
        3.0,
        any_case=False,
    ),
    labelled(
        "password hash",
        "$apr1$|$2a$|$2b$|$2y$|$argon2|$5$|$6$",
        r"(?P<secret>\$\w{1,9}\$[^\s\"':]{20,200})",
        any_value,
        3.0,
    ),
)
