"""Kilo, which is made of opencode: its configuration and its sessions."""

from vector_memory.clients.client import CONNECTED, Client, InstallScope, Sessions
from vector_memory.clients.opencode import SessionsInFile, configuration, local_entry

OF_KILO = SessionsInFile("kilo", "kilo")

CLIENT = Client(
    title="Kilo",
    files={InstallScope.USER: lambda _project: configuration("kilo", ".jsonc")},
    section="mcp",
    entry=local_entry,
    reads_comments=True,
    approval={InstallScope.USER: CONNECTED},
    commands=("kilo", "kilocode"),
    checked_with="kilo mcp list",
    sessions=Sessions(OF_KILO.home, OF_KILO.transcripts, OF_KILO.read, "XDG_DATA_HOME"),
    longest_answer="50 KiB or 2,000 lines, then a file",
    seen="7.7.7",
)
