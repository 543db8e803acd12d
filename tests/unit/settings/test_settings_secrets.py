"""Secrets never stand in the workspace file, and never in a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.settings import Settings, reveal, secrets, without_secrets

SECRET = "hunter2-of-the-tests"
KEY = "sk-proj-0123456789abcdefghij"


def load(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    path = folder / "seedbed.yaml"
    path.write_text(text, encoding="utf-8")
    return Settings.load(path, environ or {})


def wrong(folder: Path, text: str, environ: dict[str, str] | None = None) -> dict[str, str]:
    """What is said about each place of a file that must be refused."""
    with pytest.raises(SettingsError) as caught:
        load(folder, text, environ)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (f"api_key: {SECRET}", "api_key"),
        (f"apiKey: {SECRET}", "apiKey"),
        (f"openai_api_key: {SECRET}", "openai_api_key"),
        (f"aws_secret_access_key: {SECRET}", "aws_secret_access_key"),
        (f"password: {SECRET}", "password"),
        ("password: 31415926", "password"),
        (f"auth: {{pass: {SECRET}}}", "auth.pass"),
        (f"tokens: [1, {SECRET}]", "tokens[1]"),
        (f"hosts: [{{token: {SECRET}}}]", "hosts[0].token"),
        (f"headers: {{Authorization: Bearer {SECRET}}}", "headers.Authorization"),
        (f"headers: {{X-Custom: Bearer {KEY}}}", "headers.X-Custom"),
        (f"anything: {KEY}", "anything"),
        (f"list: [x, {KEY}]", "list[1]"),
        (f"api_key: {{env: {KEY}}}", "api_key.env"),
    ],
)
def test_a_secret_among_the_arguments_of_a_model_is_refused(tmp_path: Path, arguments: str, path: str) -> None:
    refused(tmp_path, f"models: {{m: {{use: x.Y, args: {{{arguments}}}}}}}", f"models.m.args.{path}")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f"store: postgresql://ada:{SECRET}@db/seedbed", "store"),
        (f"store: postgresql://ada:{SECRET}/with/slashes@db/seedbed", "store"),
        (f"store: postgresql://:{SECRET}@db/seedbed", "store"),
        (f"telemetry: {{spans: 'https://ada:{SECRET}@collector/v1/traces'}}", "telemetry.spans"),
        (f"store: postgresql://ada@db/seedbed?password={SECRET}", "store"),
        (f"store: postgresql://ada@db/seedbed?sslmode=require&sslpassword={SECRET}", "store"),
        (f"environments: {{staging: {{store: 'postgresql://ada:{SECRET}@db/x'}}}}", "environments.staging.store"),
        (f"store: [postgresql://ada:{SECRET}@db/seedbed]", "store[0]"),
        (f"secret: {SECRET}", "secret"),
    ],
)
def test_a_secret_anywhere_in_the_file_is_refused(tmp_path: Path, text: str, path: str) -> None:
    refused(tmp_path, text, path)


def refused(folder: Path, text: str, path: str) -> None:
    """The secret is told by its place and never quoted."""
    with pytest.raises(SettingsError) as caught:
        load(folder, text)
    told = [str(problem) for problem in caught.value.problems if problem.path == f"{path} (line 1)"]
    assert told
    assert "a secret written out" in told[0]
    assert "{env: NAME}" in told[0]
    for hidden in (SECRET, KEY, "31415926"):
        assert hidden not in str(caught.value)
        assert hidden not in repr(caught.value.problems)


@pytest.mark.parametrize(
    "text",
    [
        "models: {m: {use: x.Y, args: {api_key: {env: OPENAI_API_KEY}}}}",
        "models: {m: {use: x.Y, args: {api_key: {file: keys/openai}}}}",
        "models: {m: {use: x.Y, args: {max_tokens: 8, temperature: 0.5}}}",
        "models: {m: {use: x.Y, args: {api_key: ''}}}",
        "models: {m: {use: x.Y, args: {base_url: 'https://host:8443/v1/@scope/models'}}}",
        "models: {m: {use: x.Y, args: {model: sk-small}}}",
        "models: {m: {use: x.Y, args: {cache_key: topic, keyboard: qwerty, bypass: nothing}}}",
        "store: postgresql://ada@db:5432/seedbed",
    ],
)
def test_what_is_no_secret_is_let_through(tmp_path: Path, text: str) -> None:
    load(tmp_path, text)


def test_every_secret_is_told_at_once() -> None:
    document = {"a": {"token": SECRET}, "b": [{"password": SECRET}], "c": KEY}
    assert [problem.path for problem in secrets(document)] == ["a.token", "b[0].password", "c"]


def test_a_secret_in_a_variable_is_welcome_but_not_quoted_when_it_is_wrong(tmp_path: Path) -> None:
    url = f"postgresql://ada:{SECRET}@db/seedbed"
    assert load(tmp_path, "by: ada", {"SEEDBED_STORE": url}).store == url
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "by: ada", {"SEEDBED_QUOTA": url, "SEEDBED_MODELS": f"[{KEY}]"})
    assert {problem.path for problem in caught.value.problems} == {"SEEDBED_QUOTA", "SEEDBED_MODELS"}
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)


def test_references_to_secrets_are_replaced_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"  {SECRET}\n")
    value: Any = {"fast": {"args": {"api_key": {"env": "NAME"}, "list": [{"file": "key"}, 1, None]}}}
    assert reveal(value, {"NAME": "from outside"}, "models", tmp_path) == {
        "fast": {"args": {"api_key": "from outside", "list": [SECRET, 1, None]}}
    }


def test_the_address_of_the_store_may_be_kept_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("files:from-a-file\n")
    assert load(tmp_path, "store: {env: DATABASE}", {"DATABASE": "memory:"}).store == "memory:"
    text = "store: {env: DATABASE}\nenvironments: {production: {store: {file: address}}}"
    assert load(tmp_path, text, {"DATABASE": "files:dev"}).store == "files:dev"
    assert load(tmp_path, text, {"SEEDBED_ENVIRONMENT": "production"}).store == "files:from-a-file"
    assert "Set DATABASE" in wrong(tmp_path, "store: {env: DATABASE}")["store (line 1)"]


def test_the_address_of_the_cache_may_hold_a_password_but_not_in_the_file(tmp_path: Path) -> None:
    url = f"redis://:{SECRET}@localhost:6379/0"
    assert load(tmp_path, "by: ada").cache == ""
    assert load(tmp_path, "cache: redis://localhost:6379/0").cache == "redis://localhost:6379/0"
    by_name, by_variable = load(tmp_path, "cache: {env: REDIS}", {"REDIS": url}), {"SEEDBED_CACHE": url}
    assert by_name.cache == load(tmp_path, "cache: unix:///run/redis.sock", by_variable).cache == url
    assert SECRET not in repr(by_name)
    assert wrong(tmp_path, f"cache: '{url}'").keys() == {"cache (line 1)"}


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", f":{SECRET}@localhost", f"redis:{SECRET}@host"])
def test_a_wrong_address_of_the_cache_is_told_with_the_right_form(tmp_path: Path, url: str) -> None:
    (told,) = wrong(tmp_path, "by: ada", {"SEEDBED_CACHE": url}).values()
    assert "expected a URL such as redis://127.0.0.1:6379/0" in told
    assert SECRET not in told


def test_only_a_lone_name_is_a_reference(tmp_path: Path) -> None:
    value = {"env": {"use": "embedded"}, "file": 5, "other": {"env": "NAME", "more": 1}}
    assert reveal(value, {}, "models", tmp_path) == value


def test_every_secret_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    value = {"a": {"env": "ABSENT"}, "b": [{"file": "absent"}], "c": {"file": "binary"}, "d": {"file": "."}}
    with pytest.raises(SettingsError) as caught:
        reveal(value, {}, "models", tmp_path)
    assert [problem.path for problem in caught.value.problems] == ["models.a", "models.b[0]", "models.c", "models.d"]
    assert "Set ABSENT" in str(caught.value)


def test_values_can_be_shown_without_their_secrets() -> None:
    value = {"model": "large", "api_key": SECRET, "max_tokens": 8, "headers": [{"token": SECRET, "x": KEY, "y": 1}]}
    assert without_secrets(value) == {
        "model": "large",
        "api_key": None,
        "max_tokens": 8,
        "headers": [{"token": None, "x": None, "y": 1}],
    }
