"""The dialogues that ship with seedbed, one YAML file each, found by name."""

from __future__ import annotations

from pathlib import Path

MODEL = "local"
"""The model that they name; a workspace without one of that name uses its first."""

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}
