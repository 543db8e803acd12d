"""The face of seedbed: one object that people, the command line and the server all use."""

from seedbed.workspace.blocking import open_blocking
from seedbed.workspace.opening import open_workspace
from seedbed.workspace.resources import find_file
from seedbed.workspace.workspace import Workspace

__all__ = ["Workspace", "find_file", "open_blocking", "open_workspace"]
