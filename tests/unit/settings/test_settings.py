from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from seedbed.errors import SettingsError
from seedbed.settings import Card, ConfirmSettings, Settings

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


# Reading


def test_a_file_says_what_the_workspace_is_made_of(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        store: files:facts
        by: ada
        encrypted: true
        models: {fast: {use: embedded}}
        channels: {production: {require: [better]}}
        quota: {runs_per_day: 5, usd_per_day: 2}
        telemetry: {logs: told.jsonl, metrics: true, spans: "http://localhost:4318/v1/traces"}
        """,
    )
    assert (settings.store, settings.by, settings.encrypted) == ("files:facts", "ada", True)
    assert settings.models == {"fast": Card(use="embedded")}
    assert [gate.name for gate in settings.channels["production"].require] == ["better"]
    assert (settings.quota.runs_per_day, settings.quota.usd_per_day) == (5, 2.0)
    assert (settings.telemetry.logs, settings.telemetry.metrics) == ("told.jsonl", True)
    assert settings.telemetry.spans == "http://localhost:4318/v1/traces"


def test_what_is_not_said_is_local_and_unlimited(tmp_path: Path) -> None:
    settings = load(tmp_path, "by: ada")
    assert settings.store == "sqlite:///seedbed.db"
    assert settings.environment == "dev"
    assert not settings.encrypted
    assert (settings.quota.runs_per_day, settings.quota.usd_per_day) == (None, None)
    assert settings.telemetry.model_dump() == {"logs": False, "level": "info", "metrics": False, "spans": None}


def test_settings_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    settings = load(tmp_path, "by: ada")
    with pytest.raises(ValueError, match="frozen"):
        settings.by = "eve"  # type: ignore[misc]


def test_paths_are_seen_from_the_workspace_file(tmp_path: Path) -> None:
    assert load(tmp_path, "by: ada").path("keys/openai") == tmp_path / "keys" / "openai"


def test_a_missing_file_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing there"):
        Settings.load(tmp_path / "absent.yaml", {})


@pytest.mark.parametrize("text", ["", "[]", "just words", "- store"])
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str) -> None:
    assert "a mapping" in wrong(tmp_path, text)["document"]


# Environment variables


def test_a_variable_overrides_the_file(tmp_path: Path) -> None:
    environ = {"SEEDBED_STORE": "sqlite:///other.db", "SEEDBED_QUOTA__RUNS_PER_DAY": "7"}
    settings = load(tmp_path, "store: files:facts\nquota: {runs_per_day: 5, usd_per_day: 2}", environ)
    assert settings.store == "sqlite:///other.db"
    assert (settings.quota.runs_per_day, settings.quota.usd_per_day) == (7, 2.0)


def test_a_variable_overrides_the_environment_section_too(tmp_path: Path) -> None:
    text = "environments: {production: {store: 'files:facts', quota: {runs_per_day: 5}}}"
    environ = {
        "SEEDBED_ENVIRONMENT": "production",
        "SEEDBED_STORE": "files:elsewhere",
        "SEEDBED_QUOTA__RUNS_PER_DAY": "7",
    }
    settings = load(tmp_path, text, environ)
    assert settings.store == "files:elsewhere"
    assert settings.quota.runs_per_day == 7


@pytest.mark.parametrize(("value", "store"), [("memory:", "memory:"), ("files:1", "files:1"), ("007", "007")])
def test_text_in_a_variable_is_taken_as_it_is(tmp_path: Path, value: str, store: str) -> None:
    assert load(tmp_path, "by: ada", {"SEEDBED_STORE": value}).store == store


def test_a_variable_reaches_into_a_model(tmp_path: Path) -> None:
    text = "models: {fast: {use: embedded, args: {max_tokens: 8, template: raw}}}"
    settings = load(tmp_path, text, {"SEEDBED_MODELS__FAST__ARGS__MAX_TOKENS": "16"})
    assert settings.models["fast"].args == {"max_tokens": 16, "template": "raw"}


def test_a_whole_section_can_be_given_in_a_variable(tmp_path: Path) -> None:
    assert load(tmp_path, "by: ada", {"SEEDBED_QUOTA": "{runs_per_day: 3}"}).quota.runs_per_day == 3
    assert load(tmp_path, "by: ada", {"SEEDBED_TELEMETRY": "{logs: true}"}).telemetry.logs is True


def test_other_variables_are_nobodys_business(tmp_path: Path) -> None:
    environ = {"SEEDBED_KEY": SECRET, "SEEDBED_DEBUG": "1", "SEEDBED_TEST_KILLS": "5", "STORE": "files:x"}
    assert load(tmp_path, "by: ada", environ).store == "sqlite:///seedbed.db"


def test_a_variable_that_sets_nothing_is_a_slip_of_the_pen(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "by: ada", {"SEEDBED_STOR": "files:x", "SEEDBED_SOURCE": "elsewhere", "SEEDBED_BY": "ben"})
    assert [each.path for each in caught.value.problems] == ["SEEDBED_SOURCE", "SEEDBED_STOR"]
    assert "SEEDBED_STORE" in str(caught.value)
    assert "files:x" not in str(caught.value)


def test_a_wrong_variable_is_told_by_its_name_and_not_by_a_line_of_the_file(tmp_path: Path) -> None:
    told = wrong(tmp_path, "quota:\n  runs_per_day: 5", {"SEEDBED_QUOTA__RUNS_PER_DAY": "many"})
    assert list(told) == ["SEEDBED_QUOTA__RUNS_PER_DAY"]


def test_a_variable_does_not_cover_up_a_mistake_in_the_file(tmp_path: Path) -> None:
    assert list(wrong(tmp_path, "quota: 5", {"SEEDBED_QUOTA__RUNS_PER_DAY": "7"})) == ["quota (line 1)"]
    assert list(wrong(tmp_path, "store: 5", {"SEEDBED_STORE": "memory:"})) == ["store (line 1)"]


# Environments


SECTIONS = """\
store: files:dev
quota: {runs_per_day: 100, usd_per_day: 1}
models:
  fast: {use: embedded, args: {max_tokens: 8}}
  other: {use: embedded}
environments:
  production:
    store: files:production
    quota: {usd_per_day: 50}
    models:
      fast: {use: some.Chat, args: {model: large}}
"""


def test_the_chosen_environment_is_laid_over_the_rest(tmp_path: Path) -> None:
    settings = load(tmp_path, SECTIONS, {"SEEDBED_ENVIRONMENT": "production"})
    assert settings.environment == "production"
    assert settings.store == "files:production"
    assert (settings.quota.runs_per_day, settings.quota.usd_per_day) == (100, 50.0)
    fast = Card(use="some.Chat", args={"model": "large"})
    assert settings.models == {"fast": fast, "other": Card(use="embedded")}


def test_an_environment_that_is_not_chosen_changes_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path, SECTIONS)
    assert settings.environment == "dev"
    assert settings.store == "files:dev"
    assert settings.quota.usd_per_day == 1.0


def test_the_file_may_choose_its_environment(tmp_path: Path) -> None:
    assert load(tmp_path, "environment: production\n" + SECTIONS).store == "files:production"


def test_an_unknown_environment_is_refused_wherever_it_is_named(tmp_path: Path) -> None:
    assert "'dev', 'staging' or 'production'" in wrong(tmp_path, "environment: prod")["environment (line 1)"]
    assert "dev, staging, production" in wrong(tmp_path, "environments: {prod: {}}")["environments.prod (line 1)"]
    assert "SEEDBED_ENVIRONMENT" in wrong(tmp_path, "by: ada", {"SEEDBED_ENVIRONMENT": "prod"})


@pytest.mark.parametrize("section", ["5", "[store]", "text", "true"])
def test_a_section_that_is_no_mapping_is_refused(tmp_path: Path, section: str) -> None:
    assert "environments.dev (line 1)" in wrong(tmp_path, f"environments: {{dev: {section}}}")
    assert "environments (line 1)" in wrong(tmp_path, f"environments: {section}")


def test_an_empty_section_is_fine(tmp_path: Path) -> None:
    assert load(tmp_path, "environments: {dev: }").environment == "dev"


def test_an_environment_cannot_choose_another(tmp_path: Path) -> None:
    told = wrong(tmp_path, "environments: {dev: {environment: production, environments: {}}}")
    assert list(told) == ["environments.dev.environment (line 1)", "environments.dev.environments (line 1)"]


def test_a_mistake_in_a_section_is_found_before_its_environment_is_chosen(tmp_path: Path) -> None:
    text = "quota: {runs_per_day: 5}\nenvironments:\n  production:\n    quota: {runs_per_day: lots}\n    stor: x"
    told = wrong(tmp_path, text)
    assert list(told) == [
        "environments.production.quota.runs_per_day (line 4)",
        "environments.production.stor (line 5)",
    ]


# What is wrong


def test_unknown_keys_are_refused_and_the_known_ones_listed(tmp_path: Path) -> None:
    told = wrong(tmp_path, "by: ada\nstoer: x")["stoer (line 2)"]
    assert "an unknown key" in told
    assert "store" in told
    told = wrong(tmp_path, "quota: {runs: 5}")["quota.runs (line 1)"]
    assert "runs_per_day" in told
    assert "encrypted" not in told
    assert "logs, level, metrics, spans" in wrong(tmp_path, "telemetry: {traces: true}")["telemetry.traces (line 1)"]


def test_a_wrong_place_for_telemetry_is_told_with_the_right_form(tmp_path: Path) -> None:
    told = wrong(tmp_path, "telemetry:\n  logs: 5\n  spans: localhost:4318")
    assert told["telemetry.logs (line 2)"].endswith("found 5; expected true, false, the path of a file, or a URL")
    assert "expected a URL such as http://localhost:4318/v1/traces" in told["telemetry.spans (line 3)"]


def test_who_is_asked_and_for_how_long(tmp_path: Path) -> None:
    assert load(tmp_path, "by: ada").confirm == ConfirmSettings(how=None)
    text = "confirm: {how: prompt}\nenvironments: {production: {confirm: {how: queue, timeout: 1.5 hours}}}"
    there = load(tmp_path, text, {"SEEDBED_ENVIRONMENT": "production"}).confirm
    assert (there.how, there.timeout) == ("queue", timedelta(minutes=90))
    assert load(tmp_path, text, {"SEEDBED_CONFIRM__TIMEOUT": "30 seconds"}).confirm.timeout == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("confirm: queue", "confirm"),
        ("confirm: {how: phone}", "confirm.how"),
        ("confirm: {who: ann}", "confirm.who"),
        *((f"confirm: {{timeout: {each}}}", "confirm.timeout") for each in ("5", "-1 hours", "0 seconds", "53 weeks")),
        *((f"confirm: {{timeout: {each}}}", "confirm.timeout") for each in ("soon", "true", "[1 hour]", "9e99 days")),
    ],
)
def test_a_wrong_way_to_ask_is_told_with_the_right_form(tmp_path: Path, text: str, path: str) -> None:
    (told,) = wrong(tmp_path, text).items()
    assert told[0] == f"{path} (line 1)"
    assert "expected" in told[1]


@pytest.mark.parametrize("timeout", ["5 minutes", "0.25 seconds", "52 weeks"])
def test_settings_can_be_told_to_another_process(timeout: str) -> None:
    given = Settings.model_validate({"store": "memory:", "confirm": {"how": "queue", "timeout": timeout}})
    assert Settings.model_validate_json(given.model_dump_json()) == given


def test_the_source_of_settings_is_not_for_the_file_to_say(tmp_path: Path) -> None:
    assert "an unknown key" in wrong(tmp_path, "source: elsewhere")["source (line 1)"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("store: 5", "store"),
        ("store: [a]", "store"),
        ("by: {env: USER}", "by"),
        ("encrypted: 1", "encrypted"),
        ("encrypted: 'no'", "encrypted"),
        ("models: [fast]", "models"),
        ("models: {fast: embedded}", "models.fast"),
        ("channels: {production: [better]}", "channels.production"),
        ("alerts: {log: alerts.jsonl}", "alerts"),
        ("alerts: [log]", "alerts[0]"),
        ("quota: 5", "quota"),
        ("quota: {runs_per_day: true}", "quota.runs_per_day"),
        ("quota: {runs_per_day: 1.5}", "quota.runs_per_day"),
        ("quota: {runs_per_day: '5'}", "quota.runs_per_day"),
        ("quota: {runs_per_day: -1}", "quota.runs_per_day"),
        ("quota: {usd_per_day: -0.1}", "quota.usd_per_day"),
        ("quota: {usd_per_day: inf}", "quota.usd_per_day"),
        ("quota: {usd_per_day: nan}", "quota.usd_per_day"),
        ("telemetry: true", "telemetry"),
        ("telemetry: {logs: }", "telemetry.logs"),
        ("telemetry: {logs: ''}", "telemetry.logs"),
        ("telemetry: {metrics: 9464}", "telemetry.metrics"),
        ("telemetry: {spans: true}", "telemetry.spans"),
        ("telemetry: {spans: 'http://localhost:4318'}", "telemetry.spans"),
    ],
)
def test_a_wrong_type_is_refused_and_never_guessed_at(tmp_path: Path, text: str, path: str) -> None:
    assert list(wrong(tmp_path, text)) == [f"{path} (line 1)"]


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = f"""\
store: 5
stoer: x
quota: {{runs_per_day: many}}
models: {{fast: {{use: x.Y, args: {{api_key: {SECRET}}}}}}}
environments: {{prod: {{}}, staging: {{by: 7}}}}
"""
    told = wrong(tmp_path, text, {"SEEDBED_ENCRYPTED": "perhaps"})
    assert set(told) == {
        "store (line 1)",
        "stoer (line 2)",
        "quota.runs_per_day (line 3)",
        "models.fast.args.api_key (line 4)",
        "environments.prod (line 5)",
        "environments.staging.by (line 5)",
        "SEEDBED_ENCRYPTED",
    }


# Tools


def test_tools_are_functions_and_servers(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        tools:
          - my_agent:lookup
          - mcp: {name: files, command: [python, -m, my_files], env: [LANG], reads: [list_files]}
          - mcp: {url: "http://127.0.0.1:8080/mcp", key: {env: SHOP_KEY}, timeout_seconds: 5}
        """,
    )
    function, files, shop = settings.tools
    assert function.function == "my_agent:lookup"
    assert files.mcp
    assert (files.mcp.name, files.mcp.command, files.mcp.env) == ("files", ["python", "-m", "my_files"], ["LANG"])
    assert shop.mcp
    assert (shop.mcp.key, shop.mcp.timeout_seconds) == ({"env": "SHOP_KEY"}, 5.0)


@pytest.mark.parametrize(
    ("entry", "path", "told"),
    [
        ("my_agent", "tools[0].function", "install the package that offers the tool"),
        ("a b", "tools[0].function", "or the name of a tool that a package offers"),
        ("7", "tools[0]", "module:function, or mcp"),
        ("{}", "tools[0]", "module:function, or mcp"),
        ("{mcq: {url: 'http://a/b'}}", "tools[0].mcq", "one of: function, mcp"),
        ("{mcp: {comand: [a]}}", "tools[0].mcp.comand", "one of: name, command, env, url, key, reads"),
        ("{mcp: {name: a}}", "tools[0].mcp", "either a command to start it with or the url"),
        ("{mcp: {command: [a], url: 'http://a/b'}}", "tools[0].mcp", "either a command"),
        ("{mcp: {command: [a], key: {env: A}}}", "tools[0].mcp", "a key for a url"),
        ("{mcp: {url: 'http://a/b', key: {name: A}}}", "tools[0].mcp.key", "{env: NAME} or {file: PATH}"),
        ("{mcp: {url: 'ftp://a/b'}}", "tools[0].mcp.url", "a URL such as"),
        ("{mcp: {command: a}}", "tools[0].mcp.command", "a list"),
        ("{mcp: {command: [a], timeout_seconds: 0}}", "tools[0].mcp.timeout_seconds", "above 0"),
    ],
)
def test_a_tool_that_is_described_wrongly_is_told_with_its_place(
    tmp_path: Path, entry: str, path: str, told: str
) -> None:
    problems = wrong(tmp_path, f"tools:\n  - {entry}\n")
    assert told in "".join(text for place, text in problems.items() if place.split(" (")[0] == path), problems


@pytest.mark.parametrize("more", ["", ", command: [a]", ", other: 1"])
@pytest.mark.parametrize("above", ["tools:\n  - ", "environments:\n  dev:\n    tools:\n      - "])
def test_the_key_of_a_server_is_a_secret(tmp_path: Path, above: str, more: str) -> None:
    problems = wrong(tmp_path, f"{above}mcp: {{url: 'http://a/b', key: {SECRET}{more}}}")
    assert any("tools[0].mcp.key" in place and "a secret written out" in text for place, text in problems.items())
    assert SECRET not in str(problems)
