"""Random runs against a provider that lies about what it did: does the limit in money hold?

    python benchmarks/lying_provider.py --runs 1000

A real HTTP server on loopback speaks OpenAI's protocol and reports usage that is negative, not a number, zero, huge,
missing or of a wrong type, or fails after the work is done; half of the runs are streamed. What a run cost is counted
here, by the server: for each answer the larger of its own word, as far as it is a word, and a count of the texts; for a
failure after paid work that of the prompt. No function of seedbed takes part in the count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import seedbed
from seedbed.errors import SeedbedError
from seedbed.models.calling.limits import Retry

LIES = (
    *(
        "honest",
        "negative",
        "nan",
        "zero",
        "missing",
        "text",
        "list",
        "float",
        "true",
        "infinite",
        "low",
        "cost",
        "total",
    ),
    *("broken", "cut", "error inside", "refusal", "504", "no end"),
)
"""How a provider lies about an answer, and how it fails when the work is done."""

HUGE = "huge"
"""It bills more than a request can carry."""

WORDS = ["so", "it", "is", "and", "we", "know", "that", "this", "one", "holds", "for", "all", "of", "them", "in", "end"]


@dataclass
class Bill:
    """What one run cost by the server's count, and how many requests it sent after a bill that cannot be right."""

    usd: float = 0.0
    largest_usd: float = 0.0
    requests: int = 0
    huge: int = 0
    after_huge: int = 0


@dataclass
class Provider(ThreadingHTTPServer):
    """The endpoint. The name of the model says which run asks, and at which prices."""

    seed: int = 0
    lies: tuple[str, ...] = LIES
    bills: dict[str, Bill] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.daemon_threads, self.lock = True, threading.Lock()
        super().__init__(("127.0.0.1", 0), _Answering)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # it cuts answers off itself


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, read_price, written_price = request["model"].split("/")
        with self.server.lock:
            bill = self.server.bills.setdefault(name, Bill())
            bill.requests += 1
            bill.after_huge += bill.huge > 0
            chance = random.Random(f"{self.server.seed}/{name}/{bill.requests}")
        lie = chance.choice(self.server.lies)
        words = chance.randint(1, min(request["max_tokens"], 400))
        text = " ".join(chance.choices(WORDS, k=words))
        prompt = sum(len(message["content"]) for message in request["messages"])
        read, written = max(1, prompt // 5), words
        usage = _usage(lie, read, written, chance)
        worded = _word(usage)
        # An answer counts by the larger of the word and the texts; a failure by the texts that were read.
        counted = (max(worded[0], prompt // 6), max(worded[1], min(len(text) // 6, request["max_tokens"])))
        if lie in ("broken", "cut", "error inside", "refusal", "504", "no end"):
            counted = (read, 0 if lie == "504" else written)
        usd = (counted[0] * float(read_price) + counted[1] * float(written_price)) / 1e6
        with self.server.lock:
            bill.usd += usd
            bill.largest_usd = max(bill.largest_usd, usd)
            bill.huge += lie == HUGE
            self.server.told[lie] += 1
        if request.get("stream") and lie != "504":
            self._stream(lie, text, usage)
        else:
            self._send(lie, text, usage)

    def _send(self, lie: str, text: str, usage: Any) -> None:
        message = {"role": "assistant", "content": text, "refusal": "no" if lie == "refusal" else None}
        answer: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "stop"}]}
        if usage is not None:
            answer["usage"] = usage
        if lie == "error inside":
            answer["error"] = {"message": "the engine fell over", "code": 500}
        body = b'{"choices": [{' if lie == "broken" else json.dumps(answer).encode()
        self.send_response(504 if lie == "504" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if lie in ("cut", "no end") else body)
        self.close_connection = lie in ("cut", "no end")

    def _stream(self, lie: str, text: str, usage: Any) -> None:
        """The same answer word by word; one that breaks off or fails does so after the first words."""
        deltas: list[Any] = [{"choices": [{"delta": {"content": f"{word} "}}]} for word in text.split()]
        failures = {"error inside": {"error": {"message": "the engine fell over", "code": 500}}}
        failures["refusal"] = {"choices": [{"delta": {"refusal": "no"}}]}
        if lie in ("broken", "cut", "no end", *failures):
            deltas = deltas[: 1 + len(deltas) // 4]
        else:
            deltas.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        if lie in failures:
            deltas.append(failures[lie])
        elif usage is not None and lie not in ("broken", "cut", "no end"):
            deltas.append({"choices": [], "usage": usage})
        rows = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in deltas)
        rows += b'data: {"choices": [{\n\n' if lie == "broken" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        # An answer without an end comes whole as far as HTTP can tell; one that is cut does not.
        self.send_header("Content-Length", str(len(rows) + (100 if lie == "cut" else 0)))
        self.end_headers()
        self.wfile.write(rows)
        self.close_connection = lie == "cut"


def _usage(lie: str, read: int, written: int, chance: random.Random) -> Any:
    big = chance.choice([10**7, 10**9, 10**15, 1e300])
    lies: dict[str, Any] = {
        "negative": {"prompt_tokens": -read, "completion_tokens": -10 * written},
        "nan": {"prompt_tokens": math.nan, "completion_tokens": math.nan},
        "zero": {"prompt_tokens": 0, "completion_tokens": 0},
        "missing": None,
        "text": {"prompt_tokens": str(read), "completion_tokens": "many"},
        "list": [read, written],
        "float": {"prompt_tokens": float(read), "completion_tokens": written + 0.0},
        "true": {"prompt_tokens": True, "completion_tokens": False},
        "infinite": {"prompt_tokens": math.inf, "completion_tokens": written},
        "low": {"prompt_tokens": 1, "completion_tokens": 1},
        "cost": {"prompt_tokens": read, "completion_tokens": written, "cost": chance.choice([-1, math.nan, "a", 0])},
        "total": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 1 + written},
        HUGE: {"prompt_tokens": read, "completion_tokens": big},
    }
    return lies.get(lie, {"prompt_tokens": read, "completion_tokens": written})


def _word(usage: Any) -> tuple[float, float]:
    """The provider's word, where it is one: whole numbers that are not negative."""
    if not isinstance(usage, dict):
        return 0, 0
    numbers = [usage[name] for name in ("prompt_tokens", "completion_tokens")]
    if any(isinstance(each, bool | str) or not each >= 0 or each == math.inf for each in numbers):
        return 0, 0
    return min(numbers[0], 1e9), min(max(numbers[1], usage.get("total_tokens", 0) - numbers[0]), 1e9)


@contextmanager
def providing(seed: int, lies: tuple[str, ...] = LIES) -> Iterator[Provider]:
    provider = Provider(seed, lies)
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        thread.join()
        provider.server_close()


@dataclass
class Outcome:
    """One run: its limit, what it cost by the server's count and by seedbed's record, and what it ended with."""

    limit: float
    bill: Bill
    recorded: float
    named: bool


async def one_run(provider: Provider, number: int) -> Outcome:
    """A dialogue of a few turns, some at the same time, at random prices and within a random limit. Every other one is
    streamed."""
    chance = random.Random(f"{provider.seed}/{number}")
    prices = [10 ** chance.uniform(-1, 1) for _ in range(2)]
    limit = 10 ** chance.uniform(-3.5, -1.5)
    name = f"run{number}"
    args = {"model": f"{name}/{prices[0]}/{prices[1]}", "base_url": f"http://127.0.0.1:{provider.server_port}/v1"}
    models = {"one": {"use": "openai", "args": args, "usd_per_million": prices}}
    role = {"model": "one", **chance.choice([{"max_tokens": 30}, {"max_tokens": 50}, {"max_tokens": 400}, {}])}
    steps = [{"name": f"s{n}", "role": "a", "prompt": f"{{q}} part {n}"} for n in range(chance.randint(3, 12))]
    together = [{"together": steps[:-1]}] if chance.random() < 0.3 and len(steps) > 2 else steps[:-1]
    last = {**steps[-1], "prompt": f"{{q}} {{{steps[0]['name']}}}"}
    plan = {"inputs": ["q"], "roles": {"a": role}, "steps": [*together, last]}
    question = " ".join(WORDS * chance.randint(1, 30))
    error = ""
    async with seedbed.open(models=models, store="memory:") as space:
        space.resources.runner.limits.retry = Retry(first_seconds=0.0, longest_seconds=0.0)
        try:
            plain = {"seed": number, "max_cost_usd": limit, "on_event": (lambda _: None) if number % 2 else None}
            await space.run(seedbed.Playbook.from_document(plan), q=question, **plain)
        except SeedbedError as wrong:
            error = str(wrong)
        runs = [space.runs.get(each.id) for each in space.runs.recent(1)]
    texts = [error, *(notice for run in runs for turn in run.turns for notice in turn.notices)]
    named = any("charged" in text for text in texts)
    return Outcome(limit, provider.bills.get(name, Bill()), sum(run.cost_usd for run in runs), named)


async def study(runs: int, seed: int, lies: tuple[str, ...] = LIES) -> list[Outcome]:
    with providing(seed, lies) as provider:
        return [await one_run(provider, number) for number in range(runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcomes = asyncio.run(study(options.runs, options.seed))
    above = [each for each in outcomes if each.bill.usd > each.limit * (1 + 1e-9)]
    below = [each for each in outcomes if each.recorded < each.bill.usd * (1 - 1e-9)]
    asked = sum(each.bill.requests for each in outcomes)
    print(f"{len(outcomes):,} runs, {asked:,} requests to a provider that lies")
    print(f"  above their limit, by the server's count: {len(above)}")
    print(f"  recorded cost below the server's count:   {len(below)}")
    share = sum(each.bill.usd for each in outcomes) / sum(each.limit for each in outcomes)
    print(f"  spent of what was allowed: {share:.0%}")
    huge = asyncio.run(study(max(20, options.runs // 10), options.seed, (*LIES[:1], HUGE)))
    hit = [each for each in huge if each.bill.huge]
    over = sum(each.bill.usd > each.limit for each in hit)
    print(f"{len(hit):,} runs with a provider that bills more than a request can carry: {over} overshot")
    print(f"  requests after the first such bill, at most: {max((each.bill.after_huge for each in hit), default=0)}")
    print(f"  runs in which it is named: {sum(each.named for each in hit)} of {len(hit)}")


if __name__ == "__main__":
    main()
