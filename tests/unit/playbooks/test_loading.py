"""`extends`, `overrides` and run-time overrides are resolved before hashing."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks import loading
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook

BASE = """
roles:
  writer: {system: Be brief., model: fast}
  critic: {system: Find faults.}
steps:
  - {name: draft, role: writer, prompt: "{question}"}
  - together:
      - {name: facts, role: critic, prompt: "Facts in {draft}"}
      - {name: logic, role: critic, prompt: "Logic of {draft}"}
parameters: {warmth: {value: 0.5, low: 0, high: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def load(folder: Path, text: str, **overrides: object) -> Playbook:
    (folder / "child.yaml").write_text(text)
    return Playbook.load(folder / "child.yaml", {path.replace("__", "."): value for path, value in overrides.items()})


def test_a_child_that_adds_nothing_has_the_digest_of_its_parent(folder: Path) -> None:
    assert load(folder, "extends: base") == Playbook.load(folder / "base.yaml")


def test_mappings_merge_and_null_removes(folder: Path) -> None:
    child = load(folder, "extends: base\nroles:\n  writer: {model: null, system: Be kind.}\n")
    assert child.roles["writer"].model is None
    assert child.roles["writer"].system == "Be kind."
    assert "critic" in child.roles


def test_a_step_of_a_known_name_changes_it_in_place_and_a_new_one_is_added(folder: Path) -> None:
    steps = '[{name: facts, prompt: "All facts of {draft}"}, {name: final, role: writer, sees: [facts, logic]}]'
    child = load(folder, f"extends: base\nsteps: {steps}\n")
    assert [[step.name for step in group] for group in child.plan] == [["draft"], ["facts", "logic"], ["final"]]
    assert next(s.prompt for s in child.all_steps() if s.name == "facts") == "All facts of {draft}"


def test_overrides_reach_single_values_and_remove_steps(folder: Path) -> None:
    child = load(folder, "extends: base\noverrides: {roles.critic.system: Be fair., steps.logic: null}\n")
    assert child.roles["critic"].system == "Be fair."
    assert [[step.name for step in group] for group in child.plan] == [["draft"], ["facts"]]


def test_run_time_overrides_come_last_and_change_the_digest(folder: Path) -> None:
    child = load(folder, "extends: base", parameters__warmth__value=0.9, steps__facts__prompt="Facts: {draft}")
    assert child.parameter("warmth") == 0.9
    assert child != Playbook.load(folder / "base.yaml")


def test_an_override_that_leads_nowhere_is_told(folder: Path) -> None:
    with pytest.raises(PlaybookError, match=r"steps\.nope\.prompt: found no steps\.nope to change"):
        load(folder, "extends: base", steps__nope__prompt="x")


def test_an_override_begins_what_a_step_or_a_section_leaves_out(folder: Path) -> None:
    text = "extends: base\noverrides: {steps.facts.until.agreement: 0.5, meta.by.name: anna, rules.never: [pay]}\n"
    child = load(folder, text)
    facts = next(step for step in child.all_steps() if step.name == "facts")
    assert facts.until is not None
    assert facts.until.agreement == 0.5
    assert child.meta == {"by": {"name": "anna"}}
    assert child.rules.never == ("pay",)


def test_an_override_reaches_the_bounds_of_a_bare_parameter(folder: Path) -> None:
    child = load(folder, "parameters: {depth: 1}\noverrides: {parameters.depth.high: 2}\n")
    assert (child.parameter("depth"), child.parameters["depth"].high) == (1, 2)


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("steps.facts.bogus.deep: 1", "no steps.facts.bogus to change"),
        ("steps.facts.prompt.deep: 1", "no steps.facts.prompt.deep to change"),
        ("roles.critic.bogus.deep: 1", "no roles.critic.bogus to change"),
        ("roles.nobody.system: x", "no roles.nobody to change"),
        ("roles.critic.temperature: null", "no roles.critic.temperature to remove"),
        ("steps.nope: null", "no steps.nope to remove"),
    ],
)
def test_no_override_is_dropped_in_silence(folder: Path, override: str, found: str) -> None:
    with pytest.raises(PlaybookError) as wrong:
        load(folder, f"extends: base\noverrides:\n  {override}\n  roles.critic.system: 3\n")
    problems = {problem.path: problem.found for problem in wrong.value.problems}
    assert problems == {
        f"{override.split(':')[0]} ({folder / 'child.yaml'}:3)": found,
        f"roles.critic.system ({folder / 'child.yaml'}:4)": "3",
    }


def test_an_override_of_a_value_no_step_has_names_its_path(folder: Path) -> None:
    with pytest.raises(PlaybookError, match=r"steps\[0\]\.bogus .*an unknown key"):
        load(folder, "extends: base\noverrides: {steps.draft.bogus: 1}\n")


def test_overrides_that_are_none_hide_no_other_problem(folder: Path) -> None:
    with pytest.raises(PlaybookError) as wrong:
        load(folder, "extends: base\nroles: {critic: {sistem: x}}\noverrides: 5\n")
    first, second = wrong.value.problems
    assert first.path == f"overrides ({folder / 'child.yaml'}:3)"
    assert first.expected == "a mapping of paths to values"
    assert second.path.startswith("roles.critic.sistem")


def test_a_new_step_beside_a_known_one_is_added(folder: Path) -> None:
    known, new = '{name: facts, prompt: "All of {draft}"}', '{name: style, role: critic, prompt: "Style of {draft}"}'
    child = load(folder, f"extends: base\nsteps: [{{together: [{known}, {new}]}}]\n")
    assert [[step.name for step in group] for group in child.plan] == [["draft"], ["facts", "logic"], ["style"]]
    assert next(step.prompt for step in child.all_steps() if step.name == "facts") == "All of {draft}"


def test_a_step_with_an_odd_name_is_told(folder: Path) -> None:
    with pytest.raises(PlaybookError, match=r"steps\[2\]\.name.*expected text"):
        load(folder, "extends: base\nsteps: [{name: [facts], role: critic, prompt: x}]\n")


def test_two_steps_of_one_name_in_a_child_are_told_with_both_lines(folder: Path) -> None:
    with pytest.raises(PlaybookError) as wrong:
        load(folder, "extends: base\nsteps:\n- {name: facts, prompt: a}\n- {together: [{name: facts, prompt: b}]}\n")
    (problem,) = wrong.value.problems
    assert problem.path == f"steps[1].together[0].name ({folder / 'child.yaml'}:4)"
    assert problem.found == f'"facts", as in steps[0].name ({folder / "child.yaml"}:3)'


def test_a_parent_that_is_no_playbook_is_told_with_who_extends_it(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "notes.yaml").write_text("just words")
    (folder / "deep" / "child.yaml").write_text("extends: ../notes\n")
    with pytest.raises(PlaybookError) as wrong:
        Playbook.load(folder / "deep" / "child.yaml")
    assert wrong.value.source == str((folder / "notes.yaml").resolve())
    assert f"{(folder / 'deep' / 'child.yaml').resolve()} extends it" in str(wrong.value)


def test_several_parents_are_laid_over_each_other_in_order(folder: Path) -> None:
    (folder / "tone.json").write_text('{"roles": {"writer": {"system": "Sing."}}}')
    assert load(folder, "extends: [base, tone]").roles["writer"].system == "Sing."
    assert load(folder, "extends: [tone, base]").roles["writer"].system == "Be brief."


def test_a_circle_is_told_with_its_whole_way(folder: Path) -> None:
    (folder / "a.yaml").write_text("extends: b")
    (folder / "b.yaml").write_text("extends: a")
    with pytest.raises(PlaybookError, match=r"a\.yaml → b\.yaml → a\.yaml"):
        Playbook.load(folder / "a.yaml")
    with pytest.raises(PlaybookError, match="circle"):
        load(folder, "extends: child")


def test_a_missing_parent_is_told_with_where_it_was_looked_for(folder: Path) -> None:
    with pytest.raises(PlaybookError, match=r"(?s)extends: found \"nowhere\".*nowhere\.yaml"):
        load(folder, "extends: nowhere")
    with pytest.raises(PlaybookError, match="the name of a file"):
        load(folder, "extends: 3")


def test_every_value_knows_the_file_and_line_it_came_from(folder: Path) -> None:
    (folder / "child.yaml").write_text("extends: base\nroles:\n  critic:\n    system: Be fair.\n")
    origins = loading.load(folder / "child.yaml", {"parameters.warmth.value": 0.1}).origins
    assert origins["roles.critic.system"].endswith("child.yaml:4")
    assert origins["roles.writer.system"].endswith("base.yaml:3")
    assert origins["steps.logic.prompt"].endswith("base.yaml:9")
    assert origins["parameters.warmth.value"] == "override"


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_a_file_that_holds_no_mapping_is_told(folder: Path, text: str) -> None:
    with pytest.raises(PlaybookError, match="a mapping"):
        load(folder, text)


def test_an_override_in_a_file_is_explained_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("roles:\n  writer: {system: Be brief., temperature: 0.2}\n")
    (tmp_path / "child.yaml").write_text("extends: base\noverrides:\n  roles.writer.temperature: 0.7\n")
    origins = loading.load(tmp_path / "child.yaml").origins
    assert origins["roles.writer.temperature"] == f"{tmp_path / 'child.yaml'}:3"
    assert origins["roles.writer.system"] == f"{tmp_path / 'base.yaml'}:2"


@pytest.mark.parametrize(
    ("name", "text", "changes", "path", "value"),
    [
        ("mode.json", '{"name": "m", "prompts": {"turn_1": {"role": "x", "template": "Hi."}}}',
         "steps: [{name: turn_1, prompt: Ho.}]", "steps.turn_1.prompt", "Ho."),
        ("profile.json", '{"profile_id": "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11", "worker": {"system_prompt": "Hi."}}',
         "roles: {worker: {system: Ho.}}", "roles.worker.system", "Ho."),
        ("prompt.txt", "Hi.", "roles: {writer: {system: Ho.}}", "roles.writer.system", "Ho."),
        ("strategy.yaml", "metadata: {name: s, version: 1.0.0}\nparameters: {speed: 0.5}\nconstraints: {}\n"
         "evolution_metadata: {}\nchange_log: []\n", "parameters: {speed: {value: 0.6}}", "parameters.speed", 0.6),
    ],
)  # fmt: skip
def test_a_file_of_another_tool_is_a_base_like_any_other(
    name: str, text: str, changes: str, path: str, value: object, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text.replace("1.0.0", '"1.0.0"'))
    (tmp_path / "child.yaml").write_text(f"extends: {name}\n{changes}\n")
    assert genes(Playbook.load(tmp_path / "child.yaml"))[path].value == value
    assert Playbook.load(tmp_path / name).digest != Playbook.load(tmp_path / "child.yaml").digest


def test_a_base_that_is_not_there_is_told_with_those_that_ship(folder: Path) -> None:
    with pytest.raises(PlaybookError, match="built in: critique, debate"):
        load(folder, "extends: nothing")


def test_what_is_not_meant_in_a_base_of_another_tool_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mode.yaml").write_text("name: m\nmood: dry\nprompts: {turn_1: {template: Hi.}}\n")
    (tmp_path / "child.yaml").write_text("extends: mode\n")
    (warning,) = loading.load(tmp_path / "child.yaml").warnings
    assert warning.path == f"mood ({tmp_path / 'mode.yaml'}:2)"
