"""What is hardly meant is told at check, import and run; with --strict it is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seedbed.cli.main import app

MODE: dict[str, Any] = {
    "name": "pair",
    "structure": "sequential",
    "turns": 2,
    "phases": [{"type": "diagonal", "turns": [1, 9]}],
    "prompts": {
        "turn_1": {"role": "x", "participant": "m", "template": "Say {{topic}}", "requries": ["wit"]},
        "turn_2": {"role": "y", "participant": "m", "template": "{turn_1}", "contextfrom": [1], "tools": ["search"]},
    },
}
TOLD = (
    "prompts.turn_1.requries: found an unknown key",
    "Did you mean requires?",
    "prompts.turn_2.contextfrom: found an unknown key",
    "Did you mean context_from?",
    "prompts.turn_1.template: found {{topic}}; expected {topic}",
    "prompts.turn_2.tools: found tools",
    'phases[0].type: found "diagonal"',
    "phases[0].turns: found turn_9",
    "phases: found phases in a sequential mode",
)
BASE = """
roles: {w: {model: m}}
steps: [{name: a, role: w, prompt: "{q}"}]
rules: {never: [pay, "wipe_*"]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mode.json").write_text(json.dumps(MODE))
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "seedbed.yaml").write_text(
        "store: 'sqlite:///s.db'\nby: ada\nmodels: {m: {use: scripted, args: {replies: {'.': ok}}}}\n"
        "programs: ['desk:*']\ntools: [warned_shop:mail]\n"
    )
    (tmp_path / "warned_shop.py").write_text("def mail(to: str) -> str:\n    return to\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout, " ".join(f"{done.stderr} {done.exception}".split())


@pytest.mark.parametrize(
    "words", [("playbook", "check", "mode.json"), ("playbook", "import", "mode.json"), ("run", "mode.json")]
)
def test_a_mode_is_recognised_and_its_oddities_are_told_by_every_command(folder: Path, words: tuple[str, ...]) -> None:
    code, _, told = call(*words)
    assert code == 0
    for each in TOLD:
        assert each in told
    code, shown, told = call(*words, "--strict")
    assert code == 1
    assert "requries" in shown + told


def test_strategies_and_profiles_are_recognised_too(folder: Path) -> None:
    examples = Path(__file__).parents[3] / "examples" / "formats"
    _, shown, _ = call("playbook", "check", *(str(examples / name) for name in ("parcel-desk.yaml", "tenancy-qa.json")))
    assert "strategy" in shown
    assert "profile" in shown


def test_an_input_that_no_prompt_uses_is_told(folder: Path) -> None:
    (folder / "more.yaml").write_text("extends: base\ninputs: [q, topic]\n")
    assert "inputs.topic (more.yaml:2): found an input that no prompt uses" in call("playbook", "check", "more.yaml")[2]
    assert "inputs.qq: found an input that no prompt uses" in call("run", "base.yaml", "q=1", "qq=2")[2]
    code, _, told = call("run", "base.yaml", "q=1", "qq=2", "--strict")
    assert (code, "inputs.qq" in told) == (1, True)


def test_rules_of_a_base_unite_and_what_an_override_drops_is_told(folder: Path) -> None:
    (folder / "more.yaml").write_text("extends: base\nrules: {never: [mail]}\n")
    (folder / "less.yaml").write_text("extends: base\noverrides: {rules.never: [pay]}\n")
    (folder / "null.yaml").write_text("extends: base\nrules: {never: null}\n")
    assert "dropped" not in call("playbook", "check", "more.yaml")[2]
    assert '"rules.never", "value": ["pay", "wipe_*", "mail"]' in " ".join(
        call("playbook", "explain", "more.yaml", "--json")[1].split()
    ).replace("[ ", "[").replace(" ]", "]")
    assert "rules.never (less.yaml): found wipe_* dropped or weakened" in call("playbook", "check", "less.yaml")[2]
    code, shown, _ = call("playbook", "check", "null.yaml")
    assert code == 1
    assert "dropped under overrides" in " ".join(shown.split())


def test_a_rule_without_a_tool_and_a_program_off_the_list_are_told(folder: Path) -> None:
    (folder / "odd.yaml").write_text("program: os:system\nrules: {never: [mial, Mail]}\n")
    _, _, told = call("playbook", "check", "odd.yaml")
    assert "rules.never[0]: found mial, which matches no tool" in told
    assert "Did you mean mail?" in told
    assert "never[1]" not in told
    assert "program: found os:system; expected one of: desk:*" in told
    told = call("playbook", "check", "odd.yaml", "--json")[1]
    assert len(json.loads(told)["files"][0]["warnings"]) == 2
