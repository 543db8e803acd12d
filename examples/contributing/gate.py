"""A gate: no long instructions are released."""

from seedbed.release.gates.gate import Refusal, ReleaseRequest


async def short_enough(request: ReleaseRequest) -> Refusal | None:
    """No role's instructions are longer than 80 characters."""
    roles = request.library.get(request.candidate).roles
    longest = max((len(role.system) for role in roles.values()), default=0)
    if longest > 80:
        return Refusal("short_enough", f"{longest} characters", "at most 80", "Shorten the instructions.")
    return None
