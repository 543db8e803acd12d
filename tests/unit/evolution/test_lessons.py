from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from seedbed.errors import Problem
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.learning.lessons import RECALLED, Lessons, PoorCase, describe_change
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run, Turn

GENE = "roles.writer.system"


def writer(system: str) -> Playbook:
    return Playbook.from_document({"roles": {"writer": {"system": system}}})


def scored(pool: Pool, playbook: Playbook, *values: float | None) -> None:
    """The playbook's scores on the first tasks."""
    pool.add(Offer(playbook))
    told = {"replicate": 0, "metric": "exact_match", "playbook": playbook.digest}
    pool.tell(Cell(key=f"{n}", task=f"s{n}", value=value, **told) for n, value in enumerate(values))


def tried(lessons: Lessons, parent: Playbook, child: Playbook, why: str = "") -> None:
    old, new = (each.roles["writer"].system for each in (parent, child))
    lessons.try_out(GENE, old, new, why, parent.digest, child.digest)


def pool_of(tasks: int) -> Pool:
    return Pool([ExactMatch()], [f"s{n}" for n in range(tasks)])


def test_a_change_is_judged_by_the_tasks_that_parent_and_child_both_did() -> None:
    pool, lessons = pool_of(4), Lessons()
    start, better, worse, unknown = (writer(text) for text in ("Go.", "Go on.", "Go back.", "Go away."))
    for child in (better, worse, unknown):
        tried(lessons, start, child)
    scored(pool, start, 1, 0, 0, 0)
    scored(pool, better, 1, 1)
    scored(pool, worse, 0, 0, 0, 1)
    scored(pool, unknown)
    lessons.learn(pool, {each.digest for each in pool.playbooks})
    assert [(each.change, each.gain, each.tasks, each.helped) for each in lessons.of(GENE)] == [
        ('"Go." became "Go on."', 0.5, 2, True),
        ('"Go." became "Go back."', 0.0, 4, False),
    ]
    assert lessons.of("roles.critic.system") == []
    assert lessons.helpful(GENE) == 1


def test_a_lesson_changes_its_mind_when_more_is_known() -> None:
    pool, lessons = pool_of(4), Lessons()
    start, child = writer("Go."), writer("Go on.")
    tried(lessons, start, child, why="they stopped")
    scored(pool, start, 0, 1, 1, 1)
    scored(pool, child, 1)
    lessons.learn(pool, {each.digest for each in pool.playbooks})
    assert str(*lessons.of(GENE)) == '- "Go." became "Go on." ("they stopped"): +1.000 on 1 tasks'
    scored(pool, child, 1, 0, 0)
    lessons.learn(pool, {each.digest for each in pool.playbooks})
    assert not lessons.of(GENE)[0].helped


def test_what_was_refused_is_a_lesson_too() -> None:
    lessons = Lessons()
    lessons.refuse(GENE, 'added "# Rules"', [Problem("style", "headings", "the format of the text")])
    (lesson,) = lessons.of(GENE)
    assert not lesson.helped
    assert str(lesson) == '- not allowed: added "# Rules": style: found headings; expected the format of the text'


def test_only_the_latest_are_recalled() -> None:
    lessons = Lessons()
    for number in range(100):
        lessons.refuse(GENE, f"change {number}", [Problem("text", "nothing", "a text")])
        lessons.refuse(f"{GENE}{number}", "another gene", [Problem("text", "nothing", "a text")])
    assert [each.change for each in lessons.of(GENE)] == [f"change {n}" for n in range(100 - RECALLED, 100)]


def test_a_change_is_described_by_its_words() -> None:
    assert describe_change("Be brief. Be kind.", "Be brief. Be very kind. Stop.") == 'added "very", added "Stop."'
    assert describe_change("Be brief. Be kind.", "Be brief.") == 'deleted "Be kind."'
    assert describe_change("Go.", "Go. ") == "white space"


# Poor cases


def turn(step: str, text: str) -> Turn:
    spent = {"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.0, "latency_seconds": 0.0}
    return Turn(step=step, role=step, model="m", messages=(), text=text, finish_reason="stop", seed=0, **spent)


def run(*turns: Turn, **more: Any) -> Run:
    about: dict[str, Any] = {"status": "completed", "output": turns[-1].text if turns else None, "error": "", **more}
    spent = {"tokens": 2, "cost_usd": 0.0, "latency_seconds": 0.0, "models": {}}
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return Run(id="r", playbook="b2:0", inputs={}, seed=0, started=at, turns=turns, **spent, **about)


def test_a_case_is_told_with_all_that_there_is_to_read() -> None:
    task = Task("t", {"question": "Why?"}, "Because.")
    dialogue = run(turn("draft", "Hm."), turn("final", "No idea."))
    parts = PoorCase(task, 0.25, "does not match", "No idea.", dialogue).parts(2)
    assert [(part.name, part.text) for part in parts] == [
        ("task_2", '{"question":"Why?"}'),
        ("expected_2", "Because."),
        ("answer_2", "No idea."),
        ("reason_2", "does not match"),
        ("transcript_2", "[draft by draft]\nHm.\n\n[final by final]\nNo idea."),
    ]
    assert parts[0].about == "Case 2 scored 0.25."


def test_a_single_turn_says_no_more_than_the_answer_but_a_failure_does() -> None:
    task = Task("t", {"question": "Why?"})
    assert [part.name for part in PoorCase(task, 0, run=run(turn("final", "Hm."))).parts(1)] == ["task_1", "answer_1"]
    failed = PoorCase(task, None, run=run(status="failed", error="the model broke")).parts(1)
    assert (failed[0].about, failed[-1].text) == ("Case 1 was not scored.", "[the run failed]\nthe model broke")
