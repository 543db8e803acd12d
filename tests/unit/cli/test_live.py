"""seedbed run --stream: what is said is seen while it is said."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from command_line import Seedbed
from rich.console import Console

from seedbed.cli.views import live
from seedbed.cli.views.live import LiveTurns
from seedbed.runs.run import RunEvent, Turn

TURN = Turn(
    step="facts",
    role="critic",
    model="other",
    messages=(),
    text="All of it.\nSecond line.",
    prompt_tokens=10,
    completion_tokens=2,
    cost_usd=0.05,
    latency_seconds=0.5,
    finish_reason="stop",
    seed=1,
    notices=("quick did not answer, so other did",),
)


def said(step: str, piece: str) -> RunEvent:
    return RunEvent(run="r1", step=step, role="critic", model="quick", piece=piece)


def terminal(width: int = 40, height: int = 20) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def blocks(view: LiveTurns, console: Console) -> list[str]:
    """The lines that stand below everything else just now."""
    return [
        "".join(part.text for part in line).rstrip() for line in console.render_lines(view, console.options, pad=False)
    ]


def test_turns_that_are_spoken_at_the_same_time_have_a_block_each() -> None:
    console = terminal()
    with LiveTurns(console) as view:
        for step, piece in (("facts", "The "), ("logic", "It "), ("facts", "second."), ("logic", "does\nnot.")):
            view.on_event(said(step, piece))
        assert blocks(view, console) == [
            "▶ facts · critic · quick",
            "  The second.",
            "▶ logic · critic · quick",
            "  It does",
            "  not.",
        ]


def test_what_is_said_is_on_the_terminal_before_the_turn_is_done() -> None:
    console = terminal()
    with live.turns(console) as on_event:
        on_event(said("facts", "The second"))
        assert "The second" in printed(console)


def test_a_turn_that_is_done_stands_above_in_full_and_its_block_is_gone() -> None:
    console = terminal()
    with LiveTurns(console) as view:
        view.on_event(said("facts", "All of"))
        view.on_event(said("logic", "It"))
        view.on_event(RunEvent(run="r1", step="facts", role="critic", model="quick", turn=TURN))
        assert blocks(view, console) == ["▶ logic · critic · quick", "  It"]
        whole = ["All of it.", "Second line.", "quick did not answer, so other did", "12 tokens, $0.0500, 0.50 s"]
        above = printed(console).partition("▶ facts · critic · other\n")[2].splitlines()
        assert [line.strip() for line in above[:4]] == whole


def test_an_answer_that_breaks_off_begins_anew_and_says_why() -> None:
    console = terminal(width=80)
    with LiveTurns(console) as view:
        view.on_event(said("facts", "Wrong start"))
        view.on_event(
            RunEvent(run="r1", step="facts", role="critic", model="quick", discarded="the answer of quick broke off")
        )
        view.on_event(said("facts", "Right"))
        assert blocks(view, console)[1:] == ["  starting over: the answer of quick broke off", "  Right"]


def test_a_turn_that_fails_says_why_and_its_block_is_gone() -> None:
    console = terminal(width=80)
    with LiveTurns(console) as view:
        view.on_event(said("facts", "As far"))
        view.on_event(RunEvent(run="r1", step="facts", role="critic", model="quick", failed="the line is dead"))
        assert blocks(view, console) == []
        assert "not answered: the line is dead" in printed(console)


def test_runs_with_the_same_steps_have_blocks_of_their_own() -> None:
    console = terminal(width=80)
    with LiveTurns(console) as view:
        view.on_event(said("facts", "one"))
        view.on_event(RunEvent(run="r2", step="facts", role="critic", model="quick", piece="two"))
        assert [line.strip() for line in blocks(view, console)][1::2] == ["one", "two"]


def test_of_a_long_answer_the_end_is_seen_and_all_blocks_fit() -> None:
    console = terminal(height=12)
    with LiveTurns(console) as view:
        for number in range(2_000):
            view.on_event(said("facts", f"word{number} "))
            view.on_event(said("logic", "wide 中文\n"))
        lines = blocks(view, console)
    assert len(lines) <= 12
    assert "word1999" in " ".join(lines)
    assert "word5 " not in " ".join(lines)


def test_more_turns_than_fit_are_cut_off_and_do_not_scroll() -> None:
    console, times = terminal(height=6), count()
    with LiveTurns(console, clock=lambda: float(next(times))) as view:
        for number in range(20):
            view.on_event(said(f"s{number}", "x"))
        frames = printed(console).split("\x1b[2K")
        assert "s1 " in frames[-1]
        assert max(frame.count("\n") for frame in frames) == 5


def test_what_was_under_way_when_it_ended_is_printed_as_far_as_it_came() -> None:
    console = terminal()
    with suppress(KeyboardInterrupt), live.turns(console) as on_event:
        on_event(said("facts", "Half of"))
        on_event(said("facts", " it"))
        raise KeyboardInterrupt
    assert "▶ facts · critic · quick\n  Half of it\n  did not finish\n" in printed(console)


def test_the_terminal_is_not_commanded_by_what_is_said() -> None:
    console = terminal()
    with LiveTurns(console) as view:
        view.on_event(said("facts", "a\x1b[2Jb [bold]c[/bold]"))
        assert blocks(view, console)[1] == "  a␛[2Jb [bold]c[/bold]"
    assert "\x1b[2J" not in printed(console)


def test_many_pieces_in_a_moment_are_drawn_once() -> None:
    console = terminal()
    now = 100.0
    with LiveTurns(console, clock=lambda: now) as view:
        view.on_event(said("facts", "first "))
        before = len(printed(console))
        for _ in range(1_000):
            view.on_event(said("facts", "more "))
        assert len(printed(console)) == before
        now += 1
        view.on_event(said("facts", "last"))
        assert "last" in printed(console)[before:]


def test_without_a_terminal_each_turn_is_printed_when_it_ends_after_the_name_of_its_step() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=20)
    with live.turns(console) as on_event:
        on_event(said("facts", "All of it."))
        assert printed(console) == ""
        on_event(RunEvent(run="r1", step="facts", role="critic", model="quick", turn=TURN))
    lines = ("quick did not answer, so other did", "All of it.", "Second line.")
    assert printed(console) == "".join(f"facts: {line}\n" for line in lines)


def test_what_is_said_in_a_run_that_another_opened_is_told_from_what_is_said_above() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=20)
    heard = RunEvent(run="0123456789abcdef", step="facts", role="critic", model="quick", depth=1, turn=TURN)
    with live.turns(console) as on_event:
        on_event(heard)
    assert printed(console).splitlines()[1] == "0123456789 facts: All of it."
    console = terminal(80)
    with LiveTurns(console) as view:
        view.on_event(heard)
    assert "0123456789 facts · critic" in printed(console)


def test_a_step_without_an_answer_says_why_in_a_pipe_too(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=hello", "--stream", "--max-cost", "0.001")
    assert done.out.startswith("label: not answered: no model answered: found\nlabel:   ")
    assert "Raise the limit" in done.out


def test_a_run_in_a_pipe_is_told_turn_by_turn_and_its_answer_once(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=hello", "--stream")
    assert done.code == 0
    first, last = done.out.splitlines()
    assert first == "label: unsure [bold]ä[/bold] 🙂"
    assert last.startswith("run ")


def test_an_answer_that_is_not_the_last_turn_is_printed_too(space: Path, seedbed: Seedbed) -> None:
    program = "async def handle(task, stage):\n    await stage.ask('sorter', 'x')\n    return 'the answer'\n"
    (space / "streaming_desk.py").write_text(program)
    (space / "desk.yaml").write_text("roles: {sorter: {model: local}}\nprogram: streaming_desk:handle\n")
    lines = seedbed("run", "desk.yaml", "text=hello", "--stream").out.splitlines()
    assert lines[:2] == ["sorter: unsure [bold]ä[/bold] 🙂", "the answer"]


def test_streaming_is_for_people_and_json_for_programs(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=hello", "--stream", "--json")
    assert (done.code, done.out) == (64, "")
    assert "either --stream or --json" in done.err
    assert seedbed("runs", "list", "--json").json["runs"] == []
    taken = seedbed("run", "sorter.yaml", "on_event=x")
    assert taken.code == 64
    assert "expected --stream" in taken.err


def test_a_run_is_streamed_to_a_real_terminal(space: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-c", "from seedbed.cli.main import run; run()"]
    with subprocess.Popen(
        [*command, "run", "sorter.yaml", "text=hello", "--stream"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # how Linux says that nobody is at the other end any more
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    text = shown.decode()
    assert process.returncode == 0
    assert "label" in text
    assert "unsure [bold]ä[/bold] 🙂" in text
    assert "\x1b[2K" in text  # drawn over, as only a live view is
    assert "Traceback" not in text
