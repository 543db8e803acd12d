"""Prompt profiles: role prompts for a corpus and a task type."""

from __future__ import annotations

import pytest
from format_samples import UUID, back, document, example, refused

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import Note, export, import_document
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook


def test_a_profile_gives_roles_names_and_facts() -> None:
    found = example("tenancy-qa.json")
    worker = found.playbook.roles["worker"]
    assert worker.system.startswith("Answer from the passages only")
    assert (worker.temperature, worker.max_tokens) == (0.2, 600)
    assert list(found.playbook.roles) == ["worker", "reviewer", "orchestrator", "summarizer"]
    assert set(found.refs) == {
        "profiles/6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11",
        "corpora/tenancy-law/qa",
        "branches/tenancy",
        "versions/tenancy/1.1.0",
    }
    scores = {note.body["metric"]: note.body["value"] for note in found.facts if note.kind == "score"}
    assert scores == {"f1": 0.71, "grounded": 0.94}
    parents = [note.body["ref"] for note in found.facts if note.kind == "parent"]
    assert parents == ["profiles/0b9a4a0e-3b52-4c61-8a07-2d1f5a9e7c42"]


def test_a_profile_is_the_debate_that_it_describes() -> None:
    profile = document("tenancy-qa.json") | {"num_workers": 2}
    first, *others = import_document(profile).playbook.plan
    assert [(step.name, step.role) for step in first] == [("work_1", "worker"), ("work_2", "worker")]
    review, decision, summary = (step for (step,) in others)
    assert review.until
    assert (review.until.back_to, review.until.agreement, review.until.at_most) == ("work_1", 0.8, 2)
    assert [(step.role, step.sees) for step in (decision, summary)] == [
        ("orchestrator", ("work_1", "work_2", "review")),
        ("summarizer", ("work_1", "work_2", "review", "decision")),
    ]


def test_a_role_that_is_missing_has_no_step_and_one_role_alone_needs_none() -> None:
    both = {"profile_id": UUID, "worker": {"system_prompt": "Answer."}, "summarizer": {"system_prompt": "Sum up."}}
    assert [step.name for step in import_document(both).playbook.all_steps()] == ["work_1", "summary"]
    alone = {"profile_id": UUID, "worker": {"system_prompt": "Answer."}, "max_debate_rounds": 2}
    assert import_document(alone).playbook.steps == ()
    found = import_document(both | {"max_debate_rounds": 2, "num_workers": 3, "editor": {"system_prompt": "Cut."}})
    until = [step.until for step in found.playbook.all_steps() if step.until]
    assert [(each.back_to, each.at_most, each.agreement) for each in until] == [("work_1", 2, None)]
    assert [problem.path for problem in found.warnings] == ["editor"]


def test_role_prompts_and_the_numbers_of_the_debate_evolve_and_the_prompts_of_its_steps_do_not() -> None:
    paths = {*genes(example("tenancy-qa.json").playbook)}
    assert {"roles.worker.system", "steps.review.until.at_most", "steps.review.until.agreement"} <= paths
    assert not [path for path in paths if path.endswith(".prompt")]


def test_a_profile_that_was_imported_with_its_numbers_as_parameters_is_exported_as_before() -> None:
    found = example("tenancy-qa.json")
    numbers = {"max_debate_rounds": {"value": 3, "low": 1, "whole": True}, "consensus_threshold": {"value": 0.8}}
    roles = found.playbook.content()["roles"]
    earlier = Playbook.from_document({"roles": roles, "parameters": numbers})
    assert back(found, earlier) == document("tenancy-qa.json") | {"max_debate_rounds": 3}


def test_a_profile_exports_exactly_what_changed_and_new_scores() -> None:
    found = example("tenancy-qa.json")
    playbook = with_genes(found.playbook, {"roles.reviewer.system": "Be kind.", "steps.review.until.at_most": 3})
    content = playbook.content()
    del content["roles"]["summarizer"], content["steps"][-1]
    content["roles"]["editor"] = {"system": "Shorten it.", "temperature": 0.1}
    score = Note("score", "later", {"metric": "f1", "value": 0.75})
    expected = document("tenancy-qa.json")
    expected["reviewer"]["system_prompt"] = "Be kind."
    expected["max_debate_rounds"] = 3
    del expected["summarizer"]
    expected["editor"] = {"system_prompt": "Shorten it.", "temperature": 0.1}
    expected["scores"]["f1"] = 0.75
    assert export(Playbook.from_document(content), "profile", [*found.facts, score]) == expected


def test_a_new_profile_names_the_old_one_as_its_parent() -> None:
    found = example("tenancy-qa.json")
    fresh = "11111111-2222-4333-8444-555555555555"
    exported = back(found, refs=(f"profiles/{fresh}", "corpora/leases/summary", "versions/leases/2.0.0"))
    assert exported["profile_id"] == fresh
    assert exported["parent_profile_id"] == "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11"
    assert (exported["corpus_id"], exported["task_type"]) == ("leases", "summary")
    assert (exported["name"], exported["version"]) == ("leases", "2.0.0")


def test_a_profile_as_a_database_row_or_with_prompt_texts_is_read_too() -> None:
    row = {"id": "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11", "base_profile_id": None, "corpus_id": "law"}
    row |= {"profile": {"worker": {"system_prompt": "Answer."}, "num_workers": 2}, "performance_stats": {"f1": 0.5}}
    found = import_document(row)
    assert found.playbook.roles["worker"].system == "Answer."
    assert [step.name for step in found.playbook.all_steps()] == ["work_1", "work_2"]
    assert "corpora/law/qa" in found.refs
    assert [note.body["value"] for note in found.facts if note.kind == "score"] == [0.5]
    texts = {"name": "base", "role_prompts": {"worker": {"role": "worker", "prompt_text": "Answer.", "version": "1.0"}}}
    found = import_document(texts)
    exported = back(found, with_genes(found.playbook, {"roles.worker.system": "Reply."}))
    assert exported["role_prompts"]["worker"] == {"role": "worker", "prompt_text": "Reply.", "version": "1.0"}


def test_everything_wrong_with_a_profile_is_told_at_once() -> None:
    profile = document("tenancy-qa.json") | {"profile_id": "seven", "scores": {"f1": "good"}, "consensus_threshold": 7}
    profile["worker"] |= {"temperature": 3, "max_tokens": 0}
    profile["reviewer"] = "Be critical."
    profile["summarizer"] = {"temperature": 0.5}
    with pytest.raises(PlaybookError) as told:
        import_document(profile)
    assert [problem.path for problem in told.value.problems] == [
        "profile_id",
        "scores.f1",
        "consensus_threshold",
        "worker.temperature",
        "worker.max_tokens",
        "reviewer",
        "summarizer",
    ]
    assert "document: found no role prompts" in refused({"profile_id": UUID, "corpus_id": "law"})
