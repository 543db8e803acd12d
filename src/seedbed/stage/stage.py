"""Stage: the one door between a program and the outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seedbed.errors import PlaybookError, Problem
from seedbed.models.chat import Message, Model, Reply, ask
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Permission
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Turn


class Stage:
    """What a program may do: ask the playbook's roles, and look up its rules. Everything asked is recorded."""

    def __init__(self, playbook: Playbook, models: Callable[[str], Model], recorder: Recorder, seed: int) -> None:
        self.playbook = playbook
        self.seed = seed
        self._models = models
        self.recorder = recorder

    async def ask(
        self, role: str, prompt: str, *, before: Sequence[Message] = (), system: str | None = None, step: str = ""
    ) -> Reply:
        """Have a role answer; `before` is what was said earlier, `system` stands in for the role's own words."""
        if role not in self.playbook.roles:
            known = ", ".join(self.playbook.roles) or "none"
            raise PlaybookError([Problem(f"roles.{role}", "nothing", f"one of the roles: {known}")])
        asked = self.playbook.roles[role]
        if asked.model is None:
            remedy = "Name one; choosing it by what it can do comes with routing."
            raise PlaybookError([Problem(f"roles.{role}.model", "nothing", "a model of the workspace", remedy)])
        instructions = asked.system if system is None else system
        messages = [Message("system", instructions)] if instructions else []
        messages += [*before, Message("user", prompt)]
        reply = await ask(
            self._models(asked.model),
            messages,
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            stop=asked.stop,
            seed=self.seed,
        )
        self.recorder.add(
            Turn(
                step=step,
                role=role,
                model=reply.model,
                messages=tuple((message.role, message.text) for message in messages),
                text=reply.text,
                prompt_tokens=reply.usage.prompt_tokens,
                completion_tokens=reply.usage.completion_tokens,
                cost_usd=reply.cost_usd,
                latency_seconds=reply.latency_seconds,
                finish_reason=reply.finish_reason,
                seed=self.seed,
            )
        )
        return reply

    def may(self, action: str, confidence: float | None = None) -> Permission:
        """Whether the playbook's rules let an action be taken."""
        return self.playbook.may(action, confidence)
