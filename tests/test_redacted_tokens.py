"""Tokens by their beginnings, passwords in URLs, and values behind names."""

import pytest

from redaction_cases import lookalikes, tokens
from vector_memory.texts.redaction import redact

TOKENS = tokens()
AROUND = {
    "JSON": '{{"name": "deploy", "value": "{}"}}',
    "YAML": "deploy:\n  value: {}\n",
    ".env": "DEPLOY={}\n",
    "shell": "curl -H 'X-Deploy: {}' https://api.acme.dev/v1",
    "URL": "https://api.acme.dev/v1?deploy={}&page=2",
    "prose": "I sent {}, is that a problem?",
}
VALUE = "zX9vQ2mLk7RbT4nCp1Ws"


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("token", [token for _, token in TOKENS], ids=[sort for sort, _ in TOKENS])
def test_a_token_is_removed_whole_wherever_it_stands(token, around):
    found = redact(around.format(token))
    before, after = around.format("\0").split("\0")
    assert found.count == 1
    assert found.text.startswith(f"{before}[redacted: ")
    assert found.text.endswith(f"]{after}")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("mongodb://root:S3cret@99x@host", "S3cret@99x"),
        ("postgres://u:Pass@w0rd9@db", "Pass@w0rd9"),
        ("postgresql://app:p@ss@w0rd@db.acme.dev:5432/app", "p@ss@w0rd"),
        ("mysql://root:@Kiesel9@127.0.0.1/app", "@Kiesel9"),
        ("redis://:Kie@sel9@cache:6379/0", "Kie@sel9"),
        ("amqp://me@acme.dev:Kie@sel9@queue/vhost", "Kie@sel9"),
        ("smtp://me:K#e@s#l9@mail.acme.dev:25?from=a@b.c", "K#e@s#l9"),
        ("https://ci:Kie@@sel9@[::1]:8443/", "Kie@@sel9"),
        ("DATABASE_URL='postgres://u:Pass@w0rd9@db'", "Pass@w0rd9"),
        ('{"url": "mongodb+srv://u:Pass@w0rd9@db.acme.dev"}', "Pass@w0rd9"),
        ("postgres://app:K7/zq9Lm@db.acme.dev:5432/app", "K7/zq9Lm"),
        ("mongodb://root:K7?zq9Lm@host/admin", "K7?zq9Lm"),
        ("redis://:p@ss:w/rd%9@cache:6379", "p@ss:w/rd%9"),
        ("url = 'amqp://me:a/b/c@9dK7@queue/vhost'", "a/b/c@9dK7"),
    ],
)
def test_a_password_in_a_url_reaches_to_the_last_at_sign_before_the_host_and_may_have_a_slash(text, secret):
    assert redact(text).text == text.replace(secret, "[redacted: password]")


@pytest.mark.parametrize(
    "text",
    [
        'psk_password="{}"',
        "password: |\n  {}",
        "API key => {}",
        "API key: {}",
        "api-key = `{}`",
        "API key:\n{}",
        "slacktoken={}",
        "clientsecret: {}",
        "myToken = '{}'",
        "--password={}",
        "<password>{}</password>",
    ],
)
def test_a_secret_behind_its_name_is_removed_however_they_are_joined(text):
    assert VALUE not in redact(text.format(VALUE)).text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: SSWS 00" + "aB3dE5fG7h" * 4, "00" + "aB3dE5fG7h" * 4),
        ("PagerDuty routing key: u+" + "aB3dE5fG7hJ9kL1mN2", "aB3dE5fG7hJ9kL1mN2"),
        ("pagerduty integration key " + "1f9a7c4e" * 4, "1f9a7c4e" * 4),
        ("hubspot developer key: 0f3ab1c2-1234-4abc-9def-0a1b2c3d4e5f", "0f3ab1c2-1234-4abc-9def-0a1b2c3d4e5f"),
        (
            "https://outlook.office.com/webhook/0f3ab1c2-d3e4@f5a6/IncomingWebhook/" + "1a2b3c4d" * 4 + "/x9",
            "1a2b3c4d" * 4,
        ),
        ("PD_API_KEY=y_" + "aB3dE5fG7hJ9kL1mN2", "aB3dE5fG7hJ9kL1mN2"),
        (
            "https://acme.webhook.office.com/webhookb2/0f3ab1c2-d3e4@f5a6/IncomingWebhook/" + "1a2b3c4d" * 4 + "/x9",
            "1a2b3c4d" * 4,
        ),
        ("HEROKU_API_KEY=0f3ab1c2-1234-4abc-9def-0a1b2c3d4e5f", "0f3ab1c2-1234-4abc-9def-0a1b2c3d4e5f"),
        ("hubspot_api_key: 0F3AB1C2-1234-4ABC-9DEF-0A1B2C3D4E5F", "0F3AB1C2-1234-4ABC-9DEF-0A1B2C3D4E5F"),
    ],
)
def test_a_secret_of_a_vendor_is_removed_behind_its_name(text, secret):
    assert secret not in redact(text).text


@pytest.mark.parametrize("text", lookalikes("names"))
def test_names_versions_digests_and_code_stay(text):
    assert redact(text).text == text
