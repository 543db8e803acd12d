"""Settings: the workspace file as one tree of frozen classes, checked when it is loaded."""

from seedbed.settings.channels import ChannelSettings
from seedbed.settings.models import Card
from seedbed.settings.secrets import is_reference, reveal, secrets, without_secrets
from seedbed.settings.settings import ConfirmSettings, Environment, LimitSettings, Settings, TelemetrySettings
from seedbed.settings.tools import McpServer, ToolSource
from seedbed.settings.values import Quota

__all__ = [
    "Card",
    "ChannelSettings",
    "ConfirmSettings",
    "Environment",
    "LimitSettings",
    "McpServer",
    "Quota",
    "Settings",
    "TelemetrySettings",
    "ToolSource",
    "is_reference",
    "reveal",
    "secrets",
    "without_secrets",
]
