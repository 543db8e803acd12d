"""run, evaluate, compare and evolve, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, EVOLVE, SIMPLY, SORTER, WORKSPACE, Seedbed, held, keeps_promise, write

from seedbed.storage.store import short

# run


def test_run_prints_the_answer_as_it_is(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=hello", "--seed", "7")
    assert done.code == 0
    assert done.out.splitlines()[0] == "unsure [bold]ä[/bold] 🙂"
    assert "seed 7" in done.out


def test_run_keeps_its_promise_and_records_what_it_prints(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=I [b]love[/b] 日本 = it", "--seed", "7", "--json")
    assert keeps_promise(done.json, "run")
    assert done.json["inputs"] == {"text": "I [b]love[/b] 日本 = it"}
    assert done.json["cost_usd"] > 0
    assert seedbed("runs", "show", done.json["run"], "--json").json == done.json


def test_a_run_with_a_changed_gene_grows_from_what_was_changed(kept: str, seedbed: Seedbed) -> None:
    done = seedbed("run", kept, "text=love", "--set", f"steps.label.prompt={BETTER}", "--json")
    assert done.json["output"] == "good"
    known = seedbed("playbook", "show", done.json["playbook"], "--json").json
    assert (known["parents"], known["how"]) == ([kept], "edited")


def test_a_dialogue_that_ships_runs_by_name_with_at_most_so_many_turns(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "loop", "topic=tides", "--turns", "2", "--json")
    assert [turn["step"] for turn in done.json["turns"]] == ["basics", "first_question"]
    assert done.err == ""
    for words, told in ((("loop", "turns=2"), "expected --turns"), (("--resume", "x", "--turns", "2"), "a playbook")):
        refused = seedbed("run", *words)
        assert (refused.code, told in refused.err) == (64, True)


def test_without_the_model_it_names_the_first_answers_and_this_is_said(space: Path, seedbed: Seedbed) -> None:
    settings = (space / "seedbed.yaml").read_text().replace("  local:", "  own:")
    (space / "seedbed.yaml").write_text(settings)
    done = seedbed("run", "panel", "question=Buy buses?", "--json")
    assert {turn["model"] for turn in done.json["turns"]} == {"own"}
    assert "model: found local; expected one of: own. own answers." in " ".join(done.err.split())


def test_a_run_says_when_it_converged(space: Path, seedbed: Seedbed) -> None:
    mode = {"name": "pair", "convergence_threshold": 0.85, "max_turns": 9}
    mode["prompts"] = {"turn_1": {"participant": "local", "template": "Say {topic}."}}
    (space / "pair.json").write_text(json.dumps(mode))
    done = seedbed("run", "pair.json", "topic=tides", "--json")
    assert keeps_promise(done.json, "run")
    assert (done.json["status"], done.json["converged_at"]) == ("completed", 2)
    assert "converged at turn 2" in seedbed("run", "pair.json", "topic=tides").out


def test_an_answer_that_is_no_text_is_printed_as_json(space: Path, seedbed: Seedbed) -> None:
    write(
        space,
        structured__py="async def handle(task, stage):\n    return {'ä': [1, None, True]}\n",
        agent__yaml="program: structured:handle\n",
    )
    done = seedbed("run", "agent.yaml")
    assert done.out.splitlines()[0] == '{"ä": [1, null, true]}'
    assert '{"ä": [1, null, true]}' in seedbed("runs", "list").out


def test_the_seed_is_no_input(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=x", "seed=1")
    assert done.code == 64
    assert "expected --seed" in done.err


def test_a_failed_run_is_told_and_recorded(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "words=x")
    assert (done.code, done.out) == (1, "")
    assert "text" in done.err
    (failed,) = seedbed("runs", "list", "--json").json["runs"]
    assert failed["status"] == "failed"


def test_a_run_of_what_nobody_knows_names_what_is_known(kept: str, seedbed: Seedbed) -> None:
    seedbed("playbook", "name", "careful", kept, "--because", "test")
    done = seedbed("run", "absent", "text=x")
    assert done.code == 1
    assert 'no playbook named "absent"; expected one of: branches/careful' in done.err


def test_a_spent_budget_ends_with_1(space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDBED_QUOTA__RUNS_PER_DAY", "0")
    done = seedbed("run", "sorter.yaml", "text=x")
    assert done.code == 1
    assert "expected at most 0" in done.err


# evaluate


def test_evaluate_keeps_its_promise_and_pays_once(space: Path, seedbed: Seedbed) -> None:
    first = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--json")
    assert (first.code, first.json["mean"], first.json["tasks"]) == (0, 0.0, 12)
    assert keeps_promise(first.json, "evaluate")
    again = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--json").json
    assert (again["reused"], again["cost_usd"], again["mean"]) == (12, 0.0, 0.0)


def test_replicates_run_each_task_so_often(space: Path, seedbed: Seedbed) -> None:
    found = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--replicates", "2", "--json").json
    assert (found["tasks"], len(found["cells"])) == (12, 24)


def test_what_was_answered_wrongly_is_shown(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "sorter.yaml", "tasks.jsonl")
    assert "“unsure [bold]ä[/bold] 🙂”" in done.out


def test_if_no_run_succeeds_for_one_reason_that_reason_is_the_error(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--timeout", "0")
    assert (done.code, done.out) == (1, "")
    assert "it took longer than 0 s" in done.err


def test_tasks_without_an_expected_answer_are_refused_before_anything_is_paid(space: Path, seedbed: Seedbed) -> None:
    write(space, open__jsonl='{"inputs": {"text": "x"}}\n')
    done = seedbed("evaluate", "sorter.yaml", "open.jsonl", "--json")
    assert (done.code, done.out) == (1, "")
    assert json.loads(done.err)["problems"][0]["expected"] == "some with it: exact_match needs it"
    assert seedbed("runs", "list", "--json").json == {"runs": []}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("absent.jsonl", None),
        ("folder", None),
        ("empty.jsonl", b""),
        ("binary.jsonl", bytes(range(256))),
        ("bad", b"{}"),
    ],
)
def test_a_dataset_that_cannot_be_read_is_told_by_name(
    name: str, content: bytes | None, space: Path, seedbed: Seedbed
) -> None:
    (space / "folder").mkdir()
    if content is not None:
        (space / name).write_bytes(content)
    done = seedbed("evaluate", "sorter.yaml", name)
    assert done.code == 1
    assert name in done.err
    assert "unexpected" not in done.err
    assert not (space / "seedbed.db").exists()


# evolve


def test_evolve_keeps_its_promise_and_names_the_best(split: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVOLVE, "--json")
    assert (done.code, done.json["improved"], done.json["branch"]) == (0, True, "better")
    assert keeps_promise(done.json, "evolve")
    best = seedbed("playbook", "show", "better", "--json").json
    assert best["playbook"] == done.json["best"]
    assert best["genes"]["steps.label.prompt"] == BETTER
    assert best["parents"] == [done.json["start"]]


def test_evolve_shows_what_each_candidate_says_differently(split: Path, seedbed: Seedbed) -> None:
    out = seedbed(*EVOLVE).out
    assert f"“{BETTER}”" in out
    assert "best" in out


def test_if_nothing_is_better_no_branch_moves(split: Path, seedbed: Seedbed) -> None:
    write(split, bank__txt="What about {text}\n")
    done = seedbed(*EVOLVE, "--json")
    assert (done.code, done.json["improved"], done.json["branch"]) == (2, False, None)
    assert held()[2] == []


def test_a_gain_that_nothing_confirms_moves_no_branch_and_says_what_to_do(split: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVOLVE, "--confirm", "none")
    assert done.code == 2
    assert "Undecided: the best scores higher on the tasks it was selected on" in done.out
    assert "No new tasks have confirmed it. Set some aside" in done.out
    assert done.out.endswith("better was not moved\n")
    assert held()[2] == []


def test_a_best_of_few_tasks_is_shown_and_not_believed(split: Path, seedbed: Seedbed) -> None:
    lines = (split / "train.jsonl").read_text().splitlines(keepends=True)
    write(split, train__jsonl="".join(lines[:12]))
    found = seedbed(*EVOLVE, "--json")
    assert (found.code, found.json["improved"], found.json["answer"], found.json["branch"]) == (2, True, "open", None)
    assert found.json["units"] == 9
    assert found.json["unconfirmed"].startswith("The best was chosen on 9 tasks; that takes at least 20.")
    assert held()[2] == []


def test_a_rehearsed_evolution_says_what_it_would_cost_and_runs_nothing(split: Path, seedbed: Seedbed) -> None:
    seedbed("playbook", "keep", "sorter.yaml", "--because", "test")
    before = held()
    done = seedbed(*EVOLVE, "--dry-run", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evolve", form="JSON with --dry-run")
    parts = {name: done.json[name] for name in ("reflect", "select", "confirm")}
    assert parts == {"reflect": 0, "select": 30, "confirm": 10}
    assert (done.json["budget"]["runs"], done.json["optimizer"]["optimizer"]) == (500, "best_of")
    out = seedbed(*EVOLVE, "--dry-run", "--budget", "30 runs").out
    assert "best_of within 30 runs: 0 tasks to reflect on, 30 to select, 10 to confirm" in " ".join(out.split())
    assert held() == before


def test_worked_examples_come_from_the_dataset(split: Path, seedbed: Seedbed) -> None:
    found = seedbed(*EVOLVE, "--demos", "3", "--json").json
    assert found["tasks"]["reflect"] >= 3  # those that may be read
    shown = [seedbed("playbook", "show", each["playbook"], "--json").json["document"] for each in found["tried"]]
    counts = [len(each.get("demos", {}).get("label", [])) for each in shown]
    assert sorted(counts) == [0, 0, 0, 3, 3, 3]  # the start and each text, alone and with examples


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("absent.txt", None, "absent.txt"),
        ("empty.txt", b"\n \n", "no texts"),
        ("binary.txt", b"\xff\xfe\x00", "binary.txt"),
        ("map.yaml", b"a: 1\n", "a list of texts"),
        ("numbers.json", b"[1, 2]", "a list of texts"),
    ],
)
def test_a_bank_that_cannot_be_read_is_told(
    name: str, content: bytes | None, found: str, split: Path, seedbed: Seedbed
) -> None:
    if content is not None:
        (split / name).write_bytes(content)
    done = seedbed("evolve", "sorter.yaml", "train.jsonl", "--bank", name)
    assert done.code == 1
    assert found in done.err
    assert "unexpected" not in done.err


def test_a_bank_of_yaml_may_hold_long_texts(split: Path, seedbed: Seedbed) -> None:
    write(split, bank__yaml=f"- |\n  {BETTER}\n  Think.\n")
    found = seedbed("evolve", "sorter.yaml", "train.jsonl", "--bank", "bank.yaml", *SIMPLY, "--json").json
    shown = [seedbed("playbook", "show", each["playbook"], "--json").json for each in found["tried"]]
    assert f"{BETTER}\nThink." in [each["genes"]["steps.label.prompt"] for each in shown]


def test_with_several_texts_one_must_be_chosen(split: Path, seedbed: Seedbed) -> None:
    write(split, sorter__yaml=SORTER.replace("locked: [roles.sorter.system]\n", ""))
    done = seedbed(*EVOLVE)
    assert done.code == 64
    assert "2 texts that may evolve: roles.sorter.system, steps.label.prompt" in done.err
    assert seedbed(*EVOLVE, "--gene", "steps.label.prompt").code == 0


# compare


def test_compare_keeps_its_promise_and_its_exit_codes(evolved: Path, seedbed: Seedbed) -> None:
    better = seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json")
    assert (better.code, better.json["finding"]) == (0, "superior")
    assert keeps_promise(better.json, "compare")
    worse = seedbed("compare", "better", "sorter.yaml", "--on", "test.jsonl", "--json")
    assert (worse.code, worse.json["finding"]) == (1, "inferior")
    lost = [each for each in seedbed("playbook", "list", "--json").json["playbooks"] if each["failed"]]
    assert [each["failed"]["experiment"] for each in lost] == [worse.json["experiment"]]
    for command in (("list",), ("log", "better"), ("tree",)):
        assert f"{short(lost[0]['playbook'])} failed" in seedbed("playbook", *command).out
    assert "inferior against" in seedbed("playbook", "show", lost[0]["playbook"]).out
    equal = seedbed("compare", "better", "better", "--on", "test.jsonl", "--json")
    assert (equal.code, equal.json["finding"]) == (2, "inconclusive")


def test_repeating_a_comparison_gives_the_recorded_verdict(evolved: Path, seedbed: Seedbed) -> None:
    first = seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json").json
    before = held()
    assert seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json").json == first
    assert held() == before


def test_one_task_is_too_few_to_tell(evolved: Path, seedbed: Seedbed) -> None:
    write(evolved, one__jsonl=(evolved / "test.jsonl").read_text().splitlines()[0])
    done = seedbed("compare", "sorter.yaml", "better", "--on", "one.jsonl")
    assert done.code == 2
    assert "difference   +1.000 [-0.950, +1.000]" in done.out
    assert seedbed("compare", "sorter.yaml", "better", "--on", "one.jsonl", "--json").json["high"] == 1.0


# Models that do not answer


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ("{use: scripted, args: {replies: [only one]}}", "the script is over"),
        ("{use: nowhere.Chat}", "pip install nowhere"),
        ("{use: scripted, args: {answers: []}}", "models.local.args"),
        ("{use: seedbed.errors.Problem}", "a LangChain chat model class"),
        ("{}", "models.local.use"),
    ],
)
def test_a_model_that_cannot_speak_is_told_with_what_to_do(card: str, told: str, space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=f"by: ann\nmodels:\n  local: {card}\n")
    write(
        space,
        two__yaml=SORTER.replace("\nparameters", '\n  - {name: again, role: sorter, prompt: "{text}"}\nparameters'),
    )
    done = seedbed("run", "two.yaml", "text=x")
    assert (done.code, done.out) == (1, "")
    assert told in done.err
    assert "unexpected" not in done.err


def test_ctrl_c_ends_with_130_and_keeps_what_was_done(space: Path, seedbed: Seedbed) -> None:
    write(
        space,
        impatient__py=(
            "async def handle(task, stage):\n"
            "    answer = await stage.ask('sorter', task['text'])\n"
            "    if task['text'].endswith('5'):\n"
            "        raise KeyboardInterrupt\n"
            "    return answer.text\n"
        ),
        agent__yaml=SORTER.split("steps:")[0] + "program: impatient:handle\n",
    )
    done = seedbed("evaluate", "agent.yaml", "tasks.jsonl")
    assert (done.code, done.out) == (130, "")
    assert "Interrupted. Everything recorded so far is stored." in done.err
    assert seedbed("runs", "list", "--json").json["runs"]
    assert seedbed("store", "verify").code == 0


# Nothing secret is printed


SECRET = "sk-proj-0123456789abcdefghij"


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("command", [("run", "sorter.yaml", "text=x"), ("model", "list"), ("store", "verify")])
def test_a_secret_in_the_workspace_file_is_refused_and_not_repeated(
    command: tuple[str, ...], as_json: tuple[str, ...], space: Path, seedbed: Seedbed
) -> None:
    write(space, seedbed__yaml=WORKSPACE.replace("can: [sorting]", f"api_key: {SECRET}"))
    done = seedbed(*command, *as_json)
    assert done.code == 1
    assert "a secret written out" in done.err
    assert "line 7" in done.err
    assert SECRET not in done.out + done.err


def test_the_debug_variable_repeats_no_secret_either(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_DEBUG", "1")
    monkeypatch.setenv("OUR_KEY", SECRET)
    card: Any = "{use: scripted, args: {replies: {'.': x}, api_key: {env: OUR_KEY}}}"
    write(space, seedbed__yaml=f"by: ann\nmodels: {{local: {card}}}\n")
    done = seedbed("run", "sorter.yaml", "text=x")
    assert done.code == 1
    assert "models.local.args" in done.err
    assert SECRET not in done.out + done.err


def test_a_program_named_in_the_command_performs_an_imported_strategy(seedbed: Seedbed, space: Path) -> None:
    write(
        space,
        desk__yaml="metadata: {name: desk, version: 1.0.0}\nparameters: {firmness: 0.3}\n"
        "constraints: {}\nevolution_metadata: {}\n",
        agent__py="async def decide(task, stage):\n"
        "    return 'good' if stage.playbook.parameter('firmness') < 0.5 else 'bad'\n",
    )
    assert seedbed("playbook", "import", "desk.yaml").code == 0
    refused = seedbed("run", "desk", "text=hello")
    assert "--program module:function" in refused.err
    run = seedbed("run", "desk", "text=hello", "--program", "agent:decide", "--json").json
    assert run["output"] == "good"
    replayed = seedbed("runs", "replay", run["run"], "--program", "agent:decide")
    assert replayed.code == 0
    assert "same result: good" in replayed.out
    assert seedbed("evaluate", "desk", "tasks.jsonl", "--program", "agent:decide").code == 0
    worse = seedbed("playbook", "derive", "desk", "--set", "parameters.firmness=0.9", "--because", "x", "--json").json
    compared = seedbed("compare", "desk", worse["playbook"], "--on", "tasks.jsonl", "--program", "agent:decide")
    assert "failed" not in compared.out + compared.err
    assert seedbed("compare", "desk", "desk", "--replay", "1", "--program", "agent:decide").code == 64
    wrong = seedbed("evaluate", "desk", "tasks.jsonl", "--program", "agent:absent")
    assert wrong.code == 64
    assert "--program" in wrong.err
