"""The face of seedbed: one object that people, the command line and the server all use."""

from seedbed.workspace.workspace import Workspace

__all__ = ["Workspace"]
