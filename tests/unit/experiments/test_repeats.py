"""Tasks that repeat one another: which are left out, and when too few are left."""

from __future__ import annotations

from dataclasses import replace

from seedbed import Dataset, Playbook, Task
from seedbed.evaluation.datasets.seal import clear
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.proof.repeats import Repeats, check_repeats, repeats
from seedbed.playbooks.library import Library
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now

QUESTION = "If Ann walks four miles to the old market, how many miles is that in a week?"


def planned(tasks: Dataset) -> tuple[Library, Experiment]:
    library = Library(MemoryStore(), "anna")
    steps = [{"name": "answer", "role": "clerk", "prompt": "{q}"}]
    pair = [Playbook.from_document({"roles": {"clerk": {"model": name}}, "steps": steps}) for name in ("old", "new")]
    for each in pair:
        library.keep(each, because="compared")
    digests = (pair[0].digest, pair[1].digest)
    return library, Experiment.plan(*digests, tasks, ExactMatch(), models={}, design=Design(mode="confirmatory"))


def test_copies_are_left_out_unless_they_share_a_source() -> None:
    copy = Task("b", {"q": QUESTION.replace("walks", "walks,")}, "28")
    for source, left_out in (("", ("b",)), ("mail 7", ())):
        both = Dataset((Task("a", {"q": QUESTION}, "28", source=source), replace(copy, source=source)))
        library, plan = planned(both)
        assert repeats(library, plan, both).left_out == left_out
        assert [each.path for each in check_repeats(library, plan, both, 1.0)] == ["left_out", "mode"] * bool(left_out)
        assert list(check_repeats(library, replace(plan, edition=2), both, 1.0)) == []


def test_copies_that_were_cleared_count_each() -> None:
    both = Dataset((Task("a", {"q": QUESTION}, "28"), Task("b", {"q": QUESTION.replace("walks", "walks,")}, "28")))
    library, plan = planned(both)
    clear(library.store, "walks", both.tasks[1], because="the comma matters here", by="ann", clock=now)
    assert repeats(library, plan, both).left_out == ()
    assert repeats(library, plan, both, before=0).left_out == ("b",)
    assert repeats(library, replace(plan, edition=4), both).left_out == ("b",)


def test_where_case_is_part_of_a_task_it_is_part_of_its_wording() -> None:
    both = tuple(Task(word, {"q": f"How many capital letters has this word of ours: {word}?"}) for word in ("aB", "AB"))
    for case, left_out in (("fold", ("AB",)), ("keep", ())):
        several = Dataset((both[0], replace(both[1], inputs={"q": f"{both[1].inputs['q']} Thanks a lot."})), case=case)
        library, plan = planned(several)
        assert repeats(library, plan, several).left_out == left_out


def test_the_reason_names_the_tasks_and_what_to_do() -> None:
    many = Repeats(left_out=tuple(f"t{n}" for n in range(7)))
    assert many.exploratory(27) == ""
    assert "7 of 26 tasks nearly repeat" in many.exploratory(26)
    assert '("t0", "t1", "t2", "t3", "t4", …), which leaves fewer than 20; add tasks that' in many.exploratory(26)
    assert Repeats().exploratory(3) == ""


def test_an_experiment_that_leaves_nothing_out_keeps_its_form() -> None:
    _, plan = planned(Dataset((Task("a", {"q": QUESTION}, "28"),)))
    assert "left_out" not in plan.content()
    some = replace(plan, left_out=("b",))
    assert Experiment.from_content(some.content()) == some
