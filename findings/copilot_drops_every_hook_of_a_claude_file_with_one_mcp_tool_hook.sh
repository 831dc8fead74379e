#!/usr/bin/env bash
# GitHub Copilot CLI 1.0.102 reads the hooks in `.claude/settings.local.json` of a trusted folder. If one of them is of
# the type `mcp_tool`, which Claude Code has, it runs none of the others either, and says nothing. Expected: the hook of
# a type that it does not know is skipped, and the user's command runs.
# Seen: the command runs as long as it is alone, and not beside an `mcp_tool` hook of another event.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @github/copilot-linux-x64@1.0.102
cat >finding.py <<'PYTHON'
import json, os, pathlib, subprocess, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    """Says "Done." to everything, as a stream of the chat API."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choices = [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps({**head, 'choices': choices})}\n\ndata: [DONE]\n\n".encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
copilot = os.path.abspath("node_modules/@github/copilot-linux-x64/copilot")
ran = {}
for name, others in (
    ("alone", {}),
    ("beside", {"Stop": [{"hooks": [{"type": "mcp_tool", "server": "notes", "tool": "save"}]}]}),
):
    home, project = (pathlib.Path(name, part).absolute() for part in ("home", "project"))
    hook = {"type": "command", "command": f"touch {home / 'ran'}"}
    for file, content in (
        (home / ".copilot/config.json", {"trusted_folders": [str(project)]}),
        (project / ".claude/settings.local.json", {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}], **others}}),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
    variables = {
        "HOME": str(home), "PATH": os.environ["PATH"], "COPILOT_OFFLINE": "true", "COPILOT_MODEL": "m",
        "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
    }
    subprocess.run(
        [copilot, "--allow-all-tools", "-p", "Say hello."], env=variables, cwd=project, stdin=subprocess.DEVNULL,
        capture_output=True, check=True, timeout=300,
    )
    ran[name] = (home / "ran").exists()
print(ran)
sys.exit(ran != {"alone": True, "beside": False} and "Copilot runs other hooks now")
PYTHON
python3 finding.py
