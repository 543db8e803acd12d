"""Plug-ins: entry points, import by path, and suggestions for names that are close."""
