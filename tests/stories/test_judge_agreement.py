"""Judges are judged: by forty answers that a person labelled, half of them right."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.agreement import agreements, calibrate, distrust
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.evaluation.judges.rubrics import Reference
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

LABELLED = Path(__file__).parent / "labelled" / "answers.jsonl"


def labelled() -> list[LabelledAnswer]:
    rows = map(json.loads, LABELLED.read_text().splitlines())
    return [
        LabelledAnswer.answer(row["answer"], Task(f"{n}", {"question": row["question"]}, row["expected"]), row["label"])
        for n, row in enumerate(rows)
    ]


def space(**card: Any) -> Workspace:
    return Workspace(Settings(by="ada", models={"judge": card}), MemoryStore())


def reference(space: Workspace) -> Reference:
    return Reference(perform=space.resources.runner.perform, identify=space.resources.runner.model_identities)


def test_the_labels_are_half_and_half() -> None:
    labels = [each.label for each in labelled()]
    assert (len(labels), sum(label == 1 for label in labels)) == (40, 20)


async def test_a_judge_that_says_yes_to_everything_is_refused() -> None:
    here = space(use="scripted", args={"replies": {"": "It seems so.\nVERDICT: equivalent"}})
    judge = reference(here)
    agreement = (await calibrate(judge, labelled())).record(here.store, here.by)
    assert (agreement.n, agreement.kappa, agreement.raw, agreement.bias) == (40, 0.0, 0.5, 0.5)
    assert agreements(here.store, judge) == [agreement]
    assert distrust(agreement) is not None


class FewWords(Reference):
    """The same judge in words for a very small model, none of whose answers to the usual ones can be read."""

    @cached_property
    def playbook(self) -> Playbook:
        examples = [("7", "It is seven.", "equivalent"), ("Rome", "Milan.", "different")]
        examples += [("yes", "No, never.", "different"), ("20 %", "a fifth.", "equivalent")]
        shown = "\n".join(f"Expected: {one}. Given: {other} Verdict: {said}" for one, other, said in examples)
        role = {"model": self.model, "max_tokens": 3, "stop": ["\n"]}
        step = {"name": "judgement", "role": "judge", "prompt": f"{shown}\n\n{{material}}\n{{again}}\nVerdict:"}
        return Playbook.from_document({"roles": {"judge": role}, "steps": [step]})


@pytest.mark.slow
@pytest.mark.xdist_group("embedded model")
async def test_so_small_a_model_as_the_embedded_one_is_no_judge_and_is_refused() -> None:
    here = space(use="embedded", args={"template": "raw"})
    judge = FewWords(perform=here.resources.runner.perform, identify=here.resources.runner.model_identities)
    agreement = (await calibrate(judge, labelled()[::4])).record(here.store, here.by)
    assert agreement.n + agreement.unscored == 10
    assert agreement.kappa is not None
    assert agreement.high < 0.6, agreement  # when this was written: -0.06, from -0.21 to 0.00, on 31 of 40 labels
    assert distrust(agreement) is not None
    refusal = distrust(replace(agreement, unscored=0))
    assert refusal is not None
    assert "kappa" in refusal.found
