"""Model cards are read without loading anything, and lead to LangChain models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from pydantic import ConfigDict, Field, SecretStr

from seedbed.errors import SettingsError
from seedbed.models.cards import Registry
from seedbed.models.providers.embedded import EmbeddedChat
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.settings import Card

DOCUMENT = """
fast: {use: embedded, args: {template: chat, max_tokens: 7, stop: ["."]}, can: [analysis, labels], context_tokens: 99}
strong: {use: scripted, args: {replies: ["yes"]}, usd_per_million: [3, 15]}
missing: {use: langchain_nowhere.chat_models.ChatNowhere}
"""


@pytest.fixture
def registry() -> Registry:
    return Registry(yaml.safe_load(DOCUMENT))


def refusal(models: Any, source: str = "") -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        Registry(models, source)
    return caught.value


def refused(name: str, **card: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        _ = Registry({name: card})[name].chat
    return str(caught.value)


def test_reading_cards_loads_no_model_library() -> None:
    code = f"""
import sys, yaml
from seedbed.models.cards import Registry
registry = Registry(yaml.safe_load({DOCUMENT!r}))
print(registry["fast"].card.can, sorted({{"langchain_core", "xllamacpp"}} & sys.modules.keys()))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "('analysis', 'labels') []"


def test_a_card_keeps_what_the_file_says(registry: Registry) -> None:
    assert registry["strong"].name == "strong"
    assert registry["strong"].card == Card(use="scripted", args={"replies": ["yes"]}, usd_per_million=(3, 15))
    assert registry["fast"].card.context_tokens == 99


def test_a_card_needs_only_to_say_which_model_it_uses() -> None:
    card = Registry({"fast": {"use": "embedded"}})["fast"].card
    assert card == Card(use="embedded", args={}, can=(), skill={}, then=(), usd_per_million=None, timeout_seconds=120)
    assert (card.context_tokens, card.requests_per_minute, card.tokens_per_minute) == (None, None, None)


def test_iterating_gives_the_names(registry: Registry) -> None:
    assert list(registry) == ["fast", "strong", "missing"]
    assert list(Registry({})) == []


def test_short_names_lead_to_the_models_that_come_with_seedbed(registry: Registry) -> None:
    fast, strong = registry["fast"].chat, registry["strong"].chat
    assert isinstance(fast, EmbeddedChat)
    assert (fast.template, fast.max_tokens, fast.stop) == ("chat", 7, (".",))
    assert isinstance(strong, ScriptedChat)


def test_any_langchain_model_is_found_by_the_path_of_its_class() -> None:
    path = "langchain_core.language_models.fake_chat_models.FakeListChatModel"
    chat = Registry({"fake": {"use": path, "args": {"responses": ["yes"]}}})["fake"].chat
    assert chat.invoke("really?").text == "yes"


def test_a_model_is_built_once(registry: Registry) -> None:
    assert registry["fast"] is registry["fast"]
    assert registry["fast"].chat is registry["fast"].chat


def test_an_unknown_name_is_refused_with_the_known_ones(registry: Registry) -> None:
    with pytest.raises(SettingsError, match='no model named "fats"; expected one of: fast, strong, missing'):
        registry["fats"]
    with pytest.raises(SettingsError, match="expected one of: none"):
        Registry({})["fast"]


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ("embedded", 'models.fast: found "embedded"; expected a mapping such as {use: embedded'),
        ({}, "models.fast.use: found nothing; expected embedded, openai, scripted, table, or the path of a chat model"),
        ({"use": "gpt"}, 'models.fast.use: found "gpt"; expected embedded, openai, scripted, table, or the path'),
        ({"use": "my-models.Chat"}, 'models.fast.use: found "my-models.Chat"'),
        ({"use": None}, "models.fast.use: found None"),
        ({"use": "embedded", "cam": []}, "models.fast.cam: found an unknown key; expected one of: use, args, can"),
        ({"use": "embedded", "args": [1]}, "models.fast.args: found list; expected a mapping"),
        ({"use": "embedded", "args": {1: 2}}, "models.fast.args: found dict; expected a mapping of arguments by name"),
        ({"use": "embedded", "can": "reason"}, 'models.fast.can: found "reason"; expected a list of capabilities'),
        ({"use": "embedded", "can": [1]}, "models.fast.can: found [1]"),
        ({"use": "embedded", "usd_per_million": 3}, "models.fast.usd_per_million: found 3; expected two prices"),
        ({"use": "embedded", "usd_per_million": [3]}, "models.fast.usd_per_million: found [3]"),
        ({"use": "embedded", "usd_per_million": [3, -1]}, "models.fast.usd_per_million: found [3, -1]"),
        ({"use": "embedded", "usd_per_million": [3, float("nan")]}, "models.fast.usd_per_million: found [3, nan]"),
        ({"use": "embedded", "usd_per_million": [True, 1]}, "models.fast.usd_per_million: found [True, 1]"),
        ({"use": "embedded", "context_tokens": 0}, "models.fast.context_tokens: found 0; expected a whole number"),
        ({"use": "embedded", "context_tokens": True}, "models.fast.context_tokens: found True"),
        ({"use": "embedded", "requests_per_minute": 0}, "models.fast.requests_per_minute: found 0; expected a whole"),
        ({"use": "embedded", "tokens_per_minute": 1.5}, "models.fast.tokens_per_minute: found 1.5; expected a whole"),
        ({"use": "embedded", "timeout_seconds": 0}, "models.fast.timeout_seconds: found 0; expected a number above"),
        ({"use": "embedded", "timeout_seconds": float("inf")}, "models.fast.timeout_seconds: found inf"),
        ({"use": "embedded", "skill": {"maths": 1.1}}, "models.fast.skill: found {'maths': 1.1}; expected how good"),
        ({"use": "embedded", "skill": {"maths": True}}, "models.fast.skill: found {'maths': True}"),
        ({"use": "embedded", "skill": ["maths"]}, "models.fast.skill: found ['maths']"),
        ({"use": "embedded", "then": "fast"}, 'models.fast.then: found "fast"; expected a list of the models'),
        ({"use": "embedded", "then": ["slow"]}, 'models.fast.then: found "slow"; expected one of: fast'),
        ({"use": "embedded", "then": ["fast"]}, "models.fast.then: found fast → fast; expected fallbacks that do not"),
    ],
)
def test_a_wrong_card_is_refused_with_its_place_and_what_belongs_there(card: object, told: str) -> None:
    assert told in str(refusal({"fast": card}))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    error = refusal(
        {"a": {"use": "gpt", "can": 1}, "b": {"use": "embedded"}, "c": {"context_tokens": -1}}, "space.yaml"
    )
    assert [problem.path for problem in error.problems] == [
        "models.a.use",
        "models.a.can",
        "models.c.use",
        "models.c.context_tokens",
    ]
    assert str(error).startswith("space.yaml: 4 problems")


def fallbacks(**then: list[str]) -> dict[str, Any]:
    return {name: {"use": "embedded", "then": names} for name, names in then.items()}


def test_fallbacks_may_share_their_ends() -> None:
    models = Registry(fallbacks(a=["b", "c"], b=["d"], c=["d"], d=[]))
    assert models["a"].card.then == ("b", "c")


def test_every_circle_of_fallbacks_is_told_once_beside_everything_else() -> None:
    error = refusal({**fallbacks(a=["b"], b=["c", "a"], c=["gone"], d=["e"], e=["d"], f=["a"]), "g": {"use": "gpt"}})
    assert [(problem.path, problem.found) for problem in error.problems] == [
        ("models.g.use", '"gpt"'),
        ("models.c.then", '"gone"'),
        ("models.a.then", "a → b → a"),
        ("models.d.then", "d → e → d"),
    ]


def test_a_fallback_to_a_card_that_is_wrong_itself_is_no_second_problem() -> None:
    assert len(refusal({**fallbacks(a=["b"]), "b": {"use": "gpt"}}).problems) == 1


# Choosing by what they can do


ABLE = """
free:   {use: embedded, can: [summary, reasoning]}
cheap:  {use: scripted, skill: {reasoning: 0.7}, usd_per_million: [1, 2]}
dear:   {use: scripted, skill: {reasoning: 0.9}, usd_per_million: [5, 9]}
better: {use: scripted, skill: {reasoning: 0.9}, usd_per_million: [4, 9]}
dark:   {use: nowhere.Chat, can: [reasoning, secrets], skill: {reasoning: 0.9}}
"""


def test_the_best_is_the_most_skilled_and_of_equals_the_cheaper() -> None:
    models = Registry(yaml.safe_load(ABLE))
    assert models.best("reasoning").name == "better"
    assert models.best("summary").name == "free"


def test_the_cheapest_is_so_by_its_price_and_one_without_a_price_comes_last() -> None:
    models = Registry(yaml.safe_load(ABLE))
    assert models.cheapest("reasoning").name == "free"
    assert models.cheapest("secrets").name == "dark"
    assert (
        Registry({name: yaml.safe_load(ABLE)[name] for name in ("dark", "dear")}).cheapest("reasoning").name == "dear"
    )


def test_what_no_model_can_do_is_told_with_what_they_can() -> None:
    models = Registry(yaml.safe_load(ABLE))
    for choose in (models.best, models.cheapest):
        with pytest.raises(
            SettingsError, match='no model that can "cook"; expected one of: summary, reasoning, secrets'
        ):
            choose("cook")


# Secrets


def test_the_secrets_of_a_model_are_taken_out_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "key-in-a-variable")
    args = {"model": "m", "api_key": {"env": "OUR_KEY"}, "headers": {"x-token": "key-written-out"}}
    model = Registry({"large": {"use": "openai", "args": args}})["large"]
    assert model.redact("m: key-in-a-variable or key-written-out?") == "m: … or …?"


def test_models_that_are_no_mapping_are_refused() -> None:
    assert 'models: found ["fast"]; expected a mapping' in str(refusal(["fast"])).replace("'", '"')


def test_a_class_that_is_not_installed_names_the_package_to_install(registry: Registry) -> None:
    with pytest.raises(SettingsError) as caught:
        _ = registry["missing"].chat
    assert "models.missing.use: found langchain_nowhere.chat_models.ChatNowhere" in str(caught.value)
    assert "pip install langchain-nowhere" in str(caught.value)


def test_a_class_whose_own_dependency_is_missing_names_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import some_tokenizer\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "pip install some-tokenizer" in refused("fast", use="half_installed.Chat")


def test_a_misspelt_class_is_refused() -> None:
    told = refused("fast", use="seedbed.models.providers.embedded.EmbededChat")
    assert "expected a class in seedbed.models.providers.embedded. Did you mean EmbeddedChat?" in told


@pytest.mark.parametrize("use", ["collections.OrderedDict", "os.path.join"])
def test_what_is_no_chat_model_is_refused(use: str) -> None:
    assert f"models.fast.use: found {use}; expected a LangChain chat model class" in refused("fast", use=use)


def test_arguments_that_a_model_does_not_accept_are_named() -> None:
    told = refused("fast", use="embedded", args={"template": "chad", "max_token": 3})
    assert "models.fast.args.template: found str; expected 'raw' or 'chat'" in told
    assert "models.fast.args.max_token: found an unknown key; expected one of: " in told
    assert "Did you mean max_tokens?" in told


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"replies": 3}, "models.fast.args.replies: found int; expected a mapping or a list"),
        ({"replies": ["a", 3]}, "models.fast.args.replies[1]: found int; expected text"),
        ({"replis": []}, "models.fast.args.replies: found nothing; expected a value"),
        ({"replies": [], "max_tokens": 0}, "models.fast.args.max_tokens: found int; expected above 0"),
    ],
)
def test_a_wrong_argument_is_named_in_plain_words(args: dict[str, Any], found: str) -> None:
    assert found in refused("fast", use="scripted", args=args)


def test_a_misspelt_kind_of_model_is_suggested() -> None:
    assert 'found "embeded"' in (told := str(refusal({"fast": {"use": "embeded"}})))
    assert "Did you mean embedded?" in told


def test_arguments_are_never_quoted() -> None:
    secret = "not-to-be-seen"
    args = {"template": secret, "api_key": secret}
    assert secret not in refused("fast", use="embedded", args=args)
    assert secret not in str(refusal({"fast": {"args": args}}))
    assert secret not in str(refusal({"fast": {"use": "embedded", "args": secret}}))
    assert secret not in repr(Registry({"fast": {"use": "embedded", "args": args}})["fast"])


def test_secrets_are_looked_up_when_a_model_is_built_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"replies": [{"env": "SEEDBED_TEST_REPLY"}, {"file": "reply.txt"}]}
    models = Registry({"strong": {"use": "scripted", "args": args}}, str(tmp_path / "seedbed.yaml"))
    assert models["strong"].card.args == args
    with pytest.raises(SettingsError) as caught:
        _ = models["strong"].chat
    assert [each.path for each in caught.value.problems] == [
        "models.strong.args.replies[0]",
        "models.strong.args.replies[1]",
    ]
    monkeypatch.setenv("SEEDBED_TEST_REPLY", "first")
    (tmp_path / "reply.txt").write_text("second\n")
    assert [models["strong"].chat.invoke("?").text for _ in range(2)] == ["first", "second"]


# Live models


class KeyedChat(FakeListChatModel):
    """A model as LangChain's packages have them: aliases, a key, a client and a default from elsewhere."""

    model_config = ConfigDict(populate_by_name=True)

    responses: list[str] = Field(default_factory=lambda: ["yes"], exclude=True)
    model_name: str = Field(default="small", alias="model")
    api_base: str | None = Field(default=None, alias="base_url")
    temperature: float | None = None
    api_key: SecretStr | None = Field(default_factory=lambda: SecretStr("sk-from-the-environment"))
    client: Any = Field(default=None)


def test_a_live_model_is_registered_in_the_place_of_a_card() -> None:
    live = KeyedChat(model="large", temperature=0.5)
    models = Registry({"fast": live, "strong": {"use": "scripted", "args": {"replies": ["no"]}, "then": ["fast"]}})
    assert list(models) == ["fast", "strong"]
    assert models["fast"].chat is live


def test_the_card_of_a_live_model_has_its_class_and_what_was_set_but_no_secret_and_no_client() -> None:
    live = KeyedChat(model="large", temperature=0.5, api_key=SecretStr("not-to-be-seen"), client=object(), tags=["x"])
    card = Registry({"fast": live})["fast"].card
    assert card == Card(use=f"{KeyedChat.__module__}.KeyedChat", args={"model": "large", "temperature": 0.5})


def test_live_models_with_other_keys_have_the_same_card_and_with_other_parameters_another() -> None:
    def card(**arguments: Any) -> Card:
        return Registry({"fast": KeyedChat(**arguments)})["fast"].card

    assert card(model="large", api_key="one") == card(model="large", api_key="other")
    assert card(model="large") != card(model="larger")


def test_a_live_model_has_the_price_that_a_card_with_its_class_and_arguments_has() -> None:
    pytest.importorskip("genai_prices")
    url = "https://api.openai.com/v1"
    live = Registry({"fast": KeyedChat(model="gpt-4o-mini", base_url=url)})["fast"]
    written = Registry({"fast": {"use": "openai", "args": {"model": "gpt-4o-mini", "base_url": url}}})["fast"]
    assert live.price() == written.price() is not None
    assert Registry({"fast": ScriptedChat(replies=["yes"])})["fast"].price() == (0.0, 0.0)


def test_the_key_of_a_live_model_is_taken_out_of_a_text() -> None:
    model = Registry({"fast": KeyedChat(api_key=SecretStr("not-to-be-seen"))})["fast"]
    assert model.redact("wrong key: not-to-be-seen") == "wrong key: …"


def test_other_processes_cannot_use_live_models() -> None:
    Registry({"strong": {"use": "embedded"}}).require_portable()
    with pytest.raises(SettingsError, match=r"models\.fast: found a live KeyedChat; expected a card") as told:
        Registry({"strong": {"use": "embedded"}, "fast": KeyedChat()}).require_portable()
    assert "parallel: loop" in str(told.value)


class Careless(FakeListChatModel):
    """It ignores arguments that it does not know, as LangChain models do."""

    temperature: float = 1.0


class Collecting(Careless):
    model_kwargs: dict[str, Any] = Field(default_factory=dict)


class Reading(Careless):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(responses=["yes"], temperature=arguments.pop("heat", 0.5))


@pytest.mark.parametrize(
    ("kind", "args", "told"),
    [
        ("Careless", {"temprature": 0}, r"args.temprature: found an unknown key; .* Did you mean temperature\?"),
        ("Careless", {"zzz": 0}, "args.zzz: .* Correct args, or set what it asks for"),
        ("Collecting", {"zzz": 0}, "args.zzz: .* Write it under model_kwargs"),
    ],
)
def test_an_argument_that_a_class_of_ones_own_would_ignore_is_refused(
    kind: str, args: dict[str, Any], told: str
) -> None:
    model = Registry({"own": {"use": f"{__name__}.{kind}", "args": {"responses": ["yes"], **args}}})["own"]
    for use in (model.expect_arguments, lambda: model.chat):
        with pytest.raises(SettingsError, match=f"models.own.{told}"):
            use()


def test_a_class_that_reads_its_arguments_itself_gets_them_all() -> None:
    model = Registry({"own": {"use": f"{__name__}.Reading", "args": {"heat": 0.25}}})["own"]
    model.expect_arguments()
    assert vars(model.chat)["temperature"] == 0.25
