"""Kilo, which is made of opencode: its configuration and its sessions."""

from vector_memory.clients.client import Client, InstallScope
from vector_memory.clients.opencode import configuration, local_entry, sessions_in_file

CLIENT = Client(
    title="Kilo",
    files={InstallScope.USER: lambda _project: configuration("kilo", ".jsonc")},
    section="mcp",
    entry=local_entry,
    reads_comments=True,
    commands=("kilo", "kilocode"),
    checked_with="kilo mcp list",
    sessions=sessions_in_file("kilo"),
    longest_answer="50 KiB or 2,000 lines, then a file",
    seen="7.7.7",
)
