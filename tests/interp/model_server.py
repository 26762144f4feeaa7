#!/usr/bin/env python3
"""A model over HTTP that says what its script says: one OpenAI-compatible endpoint on the loopback.

model_server.py SCRIPT.json [LOG]: the script is a list of steps, taken in order, the last one for ever:
{"text": "…"} an answer; {"status": 429, "headers": {…}, "body": "…"} a refusal; {"slow": seconds}; {"cut": true} half a
reply; {"echo": true} the prompt back. Prints the port, then serves until stdin closes. LOG gets each request as a line.
"""
import http.server
import json
import sys
import threading

STEPS = json.load(open(sys.argv[1], encoding="utf-8"))
LOG = open(sys.argv[2], "a", encoding="utf-8", buffering=1) if len(sys.argv) > 2 else None
LOCK = threading.Lock()
STATE = {"n": 0}
GONE = threading.Event()


def next_step():
    with LOCK:
        step = STEPS[min(STATE["n"], len(STEPS) - 1)]
        STATE["n"] += 1
        return step


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        if LOG:
            with LOCK:
                LOG.write(json.dumps({"path": self.path, "model": body["model"], "prompt": prompt,
                                      "auth": self.headers.get("Authorization")}) + "\n")
        step = next_step()
        if "slow" in step:
            GONE.wait(step["slow"])
        status = step.get("status", 200)
        text = prompt if step.get("echo") else step.get("text", "")
        reply = step.get("body") or json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})
        data = reply.encode("utf-8")
        self.send_response(status)
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if step.get("cut"):
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.wfile.write(data)

    def log_message(self, *_args):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    GONE.set()


if __name__ == "__main__":
    main()
