"""seedbed playbook check, explain, schema, import, export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SORTER, Seedbed, held, keeps_promise, write
from jsonschema import Draft202012Validator

from seedbed import documents
from seedbed.errors import PlaybookError

EXAMPLES = Path(__file__).parents[3] / "examples" / "formats"
FOREIGN = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".json", ".yaml"))


# check


def test_check_finds_everything_that_is_wrong_with_every_file(tmp_path: Path, seedbed: Seedbed) -> None:
    broken = SORTER.replace("temperature", "warmth").replace("{text}", "{text} {label}")
    write(tmp_path, good__yaml=SORTER, bad__yaml=broken)
    done = seedbed("playbook", "check", "good.yaml", "bad.yaml", "absent.yaml", "--json")
    assert done.code == 1
    assert keeps_promise(done.json, "playbook", "check")
    good, bad, absent = done.json["files"]
    assert (len(good["problems"]), good["playbook"][:3]) == (0, "b2:")
    assert any("warmth" in problem["path"] for problem in bad["problems"])
    assert (bad["playbook"], absent["playbook"]) == (None, None)
    assert absent["problems"]
    out = seedbed("playbook", "check", "good.yaml", "bad.yaml").out
    assert "✓ good.yaml: playbook " in out
    assert "✗ bad.yaml: " in out


def test_check_of_a_good_file_passes_without_a_workspace(tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, good__yaml=SORTER)
    assert seedbed("playbook", "check", "good.yaml").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["good.yaml"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        bytes(range(256)),
        b"[1, 2]",
        b"roles: [",
        b"a: &a [*a]",
        b"text",
        b"!!python/object:os.system x",
    ],
    ids=repr,
)
@pytest.mark.parametrize("command", ["check", "explain", "import", "show"])
def test_a_file_that_is_no_playbook_is_told_by_name(
    command: str, content: bytes, tmp_path: Path, seedbed: Seedbed
) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    done = seedbed("playbook", command, "odd.yaml")
    assert done.code == 1
    told = done.out if command == "check" else done.err
    assert "odd.yaml" in told
    assert "unexpected" not in done.err


@pytest.mark.parametrize("command", ["check", "explain", "import", "show"])
def test_a_folder_in_the_place_of_a_file_is_told(command: str, tmp_path: Path, seedbed: Seedbed) -> None:
    (tmp_path / "folder.yaml").mkdir()
    done = seedbed("playbook", command, "folder.yaml")
    assert done.code == 1
    assert "folder.yaml" in done.out + done.err
    assert "unexpected" not in done.err


# explain and schema


def test_explain_names_the_file_and_line_of_each_value(tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, sorter__yaml=SORTER, child__yaml="extends: sorter\noverrides: {parameters.caution.value: 0.9}\n")
    done = seedbed("playbook", "explain", "child.yaml", "--set", "roles.sorter.temperature=0.1", "--json")
    assert keeps_promise(done.json, "playbook", "explain")
    origins = {each["path"]: each["origin"] for each in done.json["values"]}
    assert origins["roles.sorter.system"].endswith("sorter.yaml:2")
    assert origins["parameters.caution.value"].startswith("child.yaml")
    assert "sorter.yaml" not in origins["roles.sorter.temperature"]
    assert "Sort [red]mail[/red]." in seedbed("playbook", "explain", "child.yaml").out


def test_the_schema_is_one_that_editors_take(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "schema")
    Draft202012Validator.check_schema(done.json)
    playbook = documents.parse(SORTER, "sorter", PlaybookError).value
    assert Draft202012Validator(done.json).is_valid(playbook)
    assert not Draft202012Validator(done.json).is_valid({"rolls": {}})
    assert seedbed("playbook", "schema", "--json").out == done.out


@pytest.mark.parametrize("name", ["strategy", "mode", "profile"])
def test_files_of_other_tools_have_a_schema_too(name: str, seedbed: Seedbed) -> None:
    schema = Draft202012Validator(seedbed("playbook", "schema", "--format", name).json)
    schema.check_schema(schema.schema)
    files = {"strategy": "parcel-desk.yaml", "mode": "launch-plan.json", "profile": "tenancy-qa.json"}
    document = documents.read(EXAMPLES / files[name], PlaybookError).value
    assert schema.is_valid(document)
    assert not schema.is_valid({**document, **dict.fromkeys(document, 3)})
    refused = seedbed("playbook", "schema", "--format", "poem")
    assert (refused.code, "expected one of: playbook, strategy, mode, profile" in refused.err) == (64, True)


# import and export


def test_a_prompt_is_imported_and_exported_as_a_text(space: Path, seedbed: Seedbed) -> None:
    write(space, prompt__md="# Sort\n\nAnswer in one word.\n")
    assert seedbed("playbook", "import", "prompt.md", "--json").json["names"] == ["branches/prompt"]
    assert seedbed("playbook", "export", "prompt", "--format", "text").out == "# Sort\n\nAnswer in one word.\n"
    assert seedbed("playbook", "export", "prompt", "--format", "text", "-o", "same.txt").code == 0
    assert (space / "same.txt").read_text() == (space / "prompt.md").read_text()
    assert seedbed("run", "prompt.md", "mail=boo", "--json").json["status"] == "completed"


@pytest.mark.parametrize("name", FOREIGN)
def test_documents_of_other_tools_come_back_equal(name: str, space: Path, seedbed: Seedbed) -> None:
    imported = seedbed("playbook", "import", str(EXAMPLES / name), "--json")
    assert imported.code == 0
    assert keeps_promise(imported.json, "playbook", "import")
    kind, digest = imported.json["format"], imported.json["playbook"]
    written = f"back{Path(name).suffix}"
    exported = seedbed("playbook", "export", digest, "--format", kind, "-o", written, "--json")
    assert exported.code == 0
    assert keeps_promise(exported.json, "playbook", "export")
    original = documents.read(EXAMPLES / name, PlaybookError).value
    assert documents.read(space / written, PlaybookError).value == original
    assert exported.json["document"] == original


def test_an_import_brings_names_and_does_nothing_twice(space: Path, seedbed: Seedbed) -> None:
    file = str(EXAMPLES / "parcel-desk.yaml")
    seedbed("playbook", "import", file)
    names = seedbed("playbook", "show", "parcel-desk", "--json").json["names"]
    assert names == ["branches/parcel-desk", "versions/parcel-desk/1.3.0"]
    before = held()
    assert seedbed("playbook", "import", file).code == 0
    assert held() == before


def test_the_limits_of_an_import_can_be_pasted_into_the_workspace(space: Path, seedbed: Seedbed) -> None:
    out = seedbed("playbook", "import", str(EXAMPLES / "parcel-desk.yaml")).out
    _, _, pasted = out.partition("Add this to seedbed.yaml:\n")
    write(space, seedbed__yaml=f"by: ann\n{pasted}")
    required = seedbed("channel", "show", "production", "--json").json["require"]
    assert {"review", "cooldown", "max_change"} <= {
        name for each in required if isinstance(each, dict) for name in each
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("parcel-desk.yaml", "user_confirmation: 0.7", "user_confirmation: 0.8"),
        ("tenancy-qa.json", '"temperature": 0.2', '"temperature": 0.3'),
    ],
)
def test_another_document_of_the_same_version_is_refused_and_moves_no_name(
    name: str, old: str, new: str, space: Path, seedbed: Seedbed
) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert old in text
    write(space, one__yaml=text, other__yaml=text.replace(old, new))
    assert seedbed("playbook", "import", "one.yaml").code == 0
    before = held()[2]
    done = seedbed("playbook", "import", "other.yaml")
    assert done.code == 1
    assert "Versions never move" in done.err
    assert held()[2] == before


def test_an_import_can_be_rehearsed(space: Path, seedbed: Seedbed) -> None:
    seedbed("playbook", "list")
    before = held()
    done = seedbed("playbook", "import", str(EXAMPLES / "parcel-desk.yaml"), "--dry-run", "--json")
    assert (done.code, done.json["dry_run"]) == (0, True)
    assert held() == before


def test_a_playbook_of_our_own_is_no_foreign_document(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "import", "sorter.yaml")
    assert done.code == 1
    assert "a strategy" in done.err


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_an_export_in_our_own_format_is_the_same_playbook(kind: str, kept: str, space: Path, seedbed: Seedbed) -> None:
    printed = seedbed("playbook", "export", kept, "--format", kind)
    (space / f"back.{kind}").write_text(printed.out, encoding="utf-8")
    assert seedbed("playbook", "show", f"back.{kind}", "--json").json["playbook"] == kept
    assert seedbed("playbook", "export", kept, "--format", kind, "-o", f"other.{kind}").out == f"✓ wrote other.{kind}\n"
    assert (space / f"other.{kind}").read_text(encoding="utf-8") == printed.out


def test_an_export_overwrites_nothing(kept: str, space: Path, seedbed: Seedbed) -> None:
    (space / "mine.yaml").write_text("mine")
    done = seedbed("playbook", "export", kept, "-o", "mine.yaml")
    assert done.code == 1
    assert "a file that exists" in done.err
    assert (space / "mine.yaml").read_text() == "mine"


def test_what_a_format_cannot_express_is_an_error(kept: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "export", kept, "--format", "strategy", "--json")
    assert (done.code, done.out) == (1, "")
    assert json.loads(done.err)["problems"]
