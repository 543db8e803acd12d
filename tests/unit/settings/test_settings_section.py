"""Whatever is wrong anywhere in the workspace file is said when it is loaded: where, what, what belongs there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import SettingsError
from seedbed.settings import Settings
from seedbed.settings.section import join


def problems(folder: Path, text: str) -> dict[str, str]:
    file = folder / "seedbed.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        Settings.load(file, {})
    return {problem.path.partition(" (line")[0]: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("text", "path", "near"),
    [
        ("stor: x", "stor", "store"),
        ("models: {fast: {use: embedded, timeout_second: 5}}", "models.fast.timeout_second", "timeout_seconds"),
        ("metrics: {m: {judge: rubric, rubic: Good?}}", "metrics.m.rubic", "rubric"),
        ("channels: {p: {requires: []}}", "channels.p.requires", "require"),
        ("channels: {p: {canary: {roll_back: {}}}}", "channels.p.canary.roll_back", "roll_back_if"),
        ("channels: {p: {error_budget: {contrl: lord}}}", "channels.p.error_budget.contrl", "control"),
        (
            "channels: {p: {require: [{max_change: {numbers: 1}}]}}",
            "channels.p.require[0].max_change.numbers",
            "number",
        ),
        ("channels: {p: {require: [{review: {role: [a]}}]}}", "channels.p.require[0].review.role", "roles"),
        ("channels: {p: {require: [beter]}}", "channels.p.require[0]", "better"),
        ("alerts: [{slak: {}}]", "alerts[0].slak", "slack"),
        ("alerts: [{slack: {urls: x}}]", "alerts[0].slack.urls", "url"),
        ("tools: [{mcp: {url: 'http://a/b', timeout: 5}}]", "tools[0].mcp.timeout", "timeout_seconds"),
        ("quota: {runs_a_day: 5}", "quota.runs_a_day", "runs_per_day"),
        ("telemetry: {log: true}", "telemetry.log", "logs"),
        ("confirm: {timeouts: 5 minutes}", "confirm.timeouts", "timeout"),
        ("environments: {dev: {model: {}}}", "environments.dev.model", "models"),
        (
            "environments: {staging: {quota: {run_per_day: 5}}}",
            "environments.staging.quota.run_per_day",
            "runs_per_day",
        ),
        ("environments: {producton: {}}", "environments.producton", "production"),
    ],
)
def test_a_misspelt_key_is_told_with_the_one_that_was_meant(tmp_path: Path, text: str, path: str, near: str) -> None:
    assert f"Did you mean {near}?" in problems(tmp_path, text)[path]


def test_a_misspelt_word_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    assert "Did you mean staging?" in problems(tmp_path, "environment: stagin")["environment"]
    assert "Did you mean queue?" in problems(tmp_path, "confirm: {how: queu}")["confirm.how"]


def test_names_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    text = """\
models: {strong: {use: embedded, then: [stron]}}
metrics: {same: {judge: reference, model: strng}}
reviewers: {ann: [product]}
channels: {p: {require: [{review: {roles: [safety]}}]}}
"""
    found = problems(tmp_path, text)
    assert list(found) == ["models.strong.then", "metrics.same.model", "channels.p.require[0].review.roles"]
    assert "Did you mean strong?" in found["models.strong.then"]
    assert "Did you mean strong?" in found["metrics.same.model"]


def test_what_is_missing_is_told_beside_what_is_wrong_unless_another_layer_may_add_it(tmp_path: Path) -> None:
    assert list(problems(tmp_path, "models: {a: {can: []}, b: {use: 5}}")) == ["models.a.use", "models.b.use"]
    file = tmp_path / "seedbed.yaml"
    file.write_text("models: {a: {can: [analysis]}}")
    assert Settings.load(file, {"SEEDBED_MODELS__A__USE": "embedded"}).models["a"].use == "embedded"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SEEDBED_CHANNELS__PRODUCTION__REQUIRE", "[]"),
        ("SEEDBED_CHANNELS", "{production: {require: [schema]}}"),
        ("SEEDBED_CHANNELS__PRODUCTION__CANARY__APPROVAL", "false"),
        ("SEEDBED_REVIEWERS", "{eve: [safety]}"),
        ("SEEDBED_SIGNERS", "{}"),
        ("SEEDBED_METRICS__KIND__RUBRIC", "Is it an answer?"),
    ],
)
def test_no_variable_changes_what_a_release_has_to_pass(tmp_path: Path, variable: str, value: str) -> None:
    file = tmp_path / "seedbed.yaml"
    file.write_text("channels: {production: {require: [better, review]}}")
    with pytest.raises(SettingsError, match=f"{variable}: found a variable for .*only in the workspace file"):
        Settings.load(file, {variable: value})


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("channels", "{production: {require: []}}"),
        ("reviewers", "{eve: [safety]}"),
        ("signers", "{}"),
        ("metrics", "{}"),
    ],
)
def test_nor_does_an_environment_since_a_variable_chooses_it(tmp_path: Path, section: str, value: str) -> None:
    text = f"channels: {{production: {{require: [better, review]}}}}\nenvironments: {{staging: {{{section}: {value}}}}}"
    (told,) = problems(tmp_path, text).items()
    assert told[0] == f"environments.staging.{section}"
    assert "outside of environments" in told[1]


def test_settings_made_in_code_are_checked_alike() -> None:
    with pytest.raises(SettingsError, match=r"channels\.p\.canary\.hld: found an unknown key.*Did you mean hold"):
        Settings.model_validate({"channels": {"p": {"canary": {"hld": "5 runs"}}}})


def test_all_settings_survive_a_trip_to_another_process() -> None:
    settings = Settings.model_validate(
        {
            "models": {"fast": {"use": "embedded", "can": ["analysis"], "usd_per_million": [1, 2]}},
            "metrics": {"good": {"judge": "rubric", "model": "fast", "rubric": "Good?", "scale": [0, 3]}},
            "channels": {
                "p": {
                    "require": ["better", {"cooldown": "7 days"}, {"replay_fidelity": 0.9}, {"review": {}}],
                    "error_budget": 0.1,
                    "canary": {
                        "shares": ["5%", 0.5],
                        "hold": "20 runs",
                        "roll_back_if": {"rating": -0.05},
                        "deadline": "2 weeks",
                        "keep_back": "2%",
                    },
                }
            },
            "reviewers": {"ann": ["safety"]},
            "alerts": [
                {"log": {}, "name": "screen"},
                {"email": {"to": ["a@b.org"], "from": "c@d.org", "server": "smtp://localhost:25"}},
                {"slack": {"url": {"env": "HOOK"}}, "at_least": "warning"},
            ],
            "tools": ["my_agent:look_up", {"mcp": {"url": "http://127.0.0.1:1/mcp"}}],
        }
    )
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_paths_are_written_as_in_the_file() -> None:
    assert join("alerts", 0, "slack", "url") == "alerts[0].slack.url"
    assert join("", "models") == "models"
    assert join("alerts", "[1].name") == "alerts[1].name"
