#!/usr/bin/env bash
# opencode 1.18.33: `opencode run "two words"` adds quotes to a prompt that has a space: the model gets them, and the
# session keeps them, so a prompt cannot be told from one that was typed in quotes. Expected: the prompt as it was given,
# as for one word.
# Seen: "Say hello." with quotes, Hello without.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts opencode-linux-x64@1.18.33
cat >finding.py <<'PYTHON'
import json, os, pathlib, sqlite3, subprocess, sys, threading
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
home = pathlib.Path("home").absolute()
configuration = home / ".config/opencode/opencode.json"
configuration.parent.mkdir(parents=True)
provider = {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "none"},
    "models": {"m": {}},
}
configuration.write_text(json.dumps({"model": "s/m", "small_model": "s/m", "autoupdate": False, "provider": {"s": provider}}))
command = "node_modules/opencode-linux-x64/bin/opencode"
for prompt in ("Say hello.", "Hello"):
    subprocess.run(
        [os.path.abspath(command), "run", prompt],
        env={"HOME": str(home), "PATH": os.environ["PATH"]}, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
        check=True, timeout=300,
    )
with sqlite3.connect(home / ".local/share/opencode/opencode.db") as database:
    texts = [json.loads(data).get("text") for (data,) in database.execute("select data from part order by time_created")]
seen = [text for text in texts if text and "ello" in text]
print(seen)
sys.exit(seen != ['"Say hello."', "Hello"] and "opencode keeps the prompt as it is given now")
PYTHON
python3 finding.py
