"""Examples for the help of each command: a command line, and what it does."""

EXAMPLES: dict[str, dict[str, str]] = {
    "serve": {
        "serve": "the memory of a project",
        "serve --database-path ~/memory.db": "one memory for all projects",
        "serve --toolsets all --read-only": "all tools that read",
        "serve --http": "many clients on this machine, over HTTP",
    },
    "database": {
        "database prepare --database-url postgresql://owner@db/agents": "create or upgrade its tables",
        "database prepare --serve memory_server --read memory_reader": "let roles use them",
    },
    "namespace": {
        "namespace create web --data-dir /srv/memory": "a memory for a team",
        "namespace limit web --max-memories 100000 --calls-per-minute 600": "set its limits",
    },
    "token": {
        "token create ci --namespace web --data-dir /srv/memory": "for reading",
        "token create alice --namespace web --scope write --expires 90d": "for storing too",
        "token revoke alice": "refuse it from now on",
    },
    "audit": {
        "audit --token alice": "what a token was used for",
        "audit --memory 7": "which client read, found or changed memory 7, and when",
        "audit --verify": "check that no line is missing",
    },
    "install": {
        "install": "every client found on this machine, after one question",
        "install claude": "for all projects of Claude Code, each with its own memory",
        "install codex --project --dry-run --diff": "show what would change in this project",
        "install cursor --database-path ~/memory.db": "one memory for all projects",
        "install claude --profile full --yes": "all session tools, without a question",
    },
    "uninstall": {"uninstall claude": "remove what `install claude` added"},
    "ui": {
        "ui": "the memory of the project in the current folder",
        "ui --database-path ~/memory.db --read-only": "another one, without changing anything",
    },
    "demo": {
        "demo": "on the documentation of vector-memory",
        "demo notes --question 'how do we deploy?'": "on your own files",
    },
    "store": {
        "store 'The staging database is on port 5433.'": "a finding",
        "store 'Deploy on Tuesdays.' --kind knowledge_base --title Rule": "what holds for all sessions",
    },
    "ingest": {
        "ingest docs": "all files of a folder, into the session `docs`",
        "ingest docs --sync": "replace edited files, delete the memories of deleted ones",
        "ingest docs --sync --keep-replaced": "keep the earlier texts of edited files",
        "ingest docs --watch": "follow the files",
        "git log -n 50 | vector-memory ingest - --session log": "standard input",
    },
    "search": {
        "search why is the first request slow": "in everything",
        "search 'error 1205' --mode keyword --kind report": "by words, in reports",
        "search deployment --session monday --grain section": "whole sections",
    },
    "list": {
        "list": "what was stored last",
        "list --kind knowledge_base": "the knowledge base",
        "list --kind tagged_memory --tags redis": "notes with a tag",
        "list --state superseded --since 2026-10": "what later memories have replaced",
    },
    "show": {"show 7": "a memory and its origin", "show 7 --raw > report.md": "its exact text"},
    "sessions": {"sessions": "the latest 20", "sessions --agent reviewer": "an agent's"},
    "timeline": {
        "timeline monday": "what was stored, by whom and when",
        "timeline monday --agent scout --kind report": "part of it",
    },
    "stats": {"stats": "the whole memory", "stats monday": "a session"},
    "review": {
        "review --session sprint-12": "a session's findings that later ones may replace",
        "review --dismiss 7": "nothing stored after 7 corrects it",
        "review --accept 9 --reject 8": "9 may be found from now on, 8 is deleted",
    },
    "verify": {
        "verify": "what no longer holds in the project of the current folder",
        "verify --session sprint-12 --json": "of a session, for programs",
    },
    "report": {
        "report monday --open": "write monday.html and open it",
        "report --all -o pages": "a page for each session",
    },
    "export": {
        "export monday -o monday.jsonl": "a session",
        "export --vectors -o all.jsonl": "everything, to import without a model",
    },
    "import": {
        "import monday.jsonl": "add its new memories",
        "import monday.jsonl --as tuesday": "as a session with another name",
        "import old/vector_memory.db": "the notes of a tagged memory server",
    },
    "copy": {
        "copy ~/memory.db postgresql://alice@db/memory": "from one machine to a database server",
        "copy postgresql://alice@db/memory ~/memory.db": "and back",
    },
    "import-sessions": {
        "import-sessions --dry-run": "show what would be stored for this project",
        "import-sessions --all --client codex": "all sessions of Codex",
        "import-sessions --again": "also texts that were deleted since",
    },
    "undo": {
        "undo": "what agents deleted, and until when it can be brought back",
        "undo --agent scout": "bring back all that scout stored or deleted",
        "undo 7 --erase": "erase a secret that an agent stored and deleted",
    },
    "quarantine": {
        "quarantine --source https://example.org/page --dry-run": "what came from a page, and what was derived from it",
        "quarantine --session night-run": "take a session out of use",
    },
    "supersede": {
        "supersede 9 4 7": "9 replaces 4 and 7",
        "supersede 9 --session monday --task T1": "9 replaces this session's earlier memories of the task",
        "supersede 9 7 --release": "it does not replace 7",
        "supersede 9 7 --merge": "if 9 repeats all of 7",
    },
    "delete": {"delete 7 8": "two memories", "delete --session monday --dry-run": "show what would be deleted"},
    "pin": {"pin 7 8": "two memories"},
    "unpin": {"unpin 7": "let it age again"},
    "edit": {
        "edit 7 --title 'Exports are Parquet'": "give it another title",
        "edit 7 --tags exports --tags storage": "replace its tags",
    },
    "tag": {
        "tag 7 8 --add decided --remove draft": "their other tags stay",
        "tag --session monday --task T-7 --add shipped": "all memories that the filters select",
    },
    "cleanup": {
        "cleanup --days 365 --dry-run": "count what is older than a year",
        "cleanup --days 365": "delete it",
        "cleanup --policy --retention 'working_memory=30d'": "delete what policies name",
    },
    "backfill": {"backfill": "make everything searchable by meaning"},
    "reembed": {"reembed --embedding-model multilingual-e5-small": "change the model"},
    "models": {"models": "what can be used, and what is installed"},
    "doctor": {"doctor": "check everything", "doctor --fix": "repair what can be repaired"},
    "backup": {"backup ~/backups/monday.db": "while servers keep writing"},
    "restore": {"restore ~/backups/monday.db --overwrite": "keeps the previous memory next to it"},
    "fetch-model": {"fetch-model": "once, before working without a network"},
    "completion": {'eval "$(vector-memory completion bash)"': "in this shell"},
    "hook": {"hook gemini prompt 1796000000000000000": "as the hook does if no server runs"},
}

OVERHANG = 44
"""A longer command line has its explanation on the next line."""


def examples_of(command: str) -> str:
    """Return the examples of a command as its help prints them."""
    lines = ["Examples:"]
    for words, meaning in EXAMPLES[command].items():
        line = words if "vector-memory" in words else f"vector-memory {words}"
        lines += [f"  {line:{OVERHANG}}  {meaning}"] if len(line) <= OVERHANG else [f"  {line}", f"      {meaning}"]
    return "\n".join(lines)
