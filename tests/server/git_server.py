#!/usr/bin/env python3
"""A git server for the tests, run inside a sandbox: git's own HTTP backend behind a few doors.

  /open/<repo>      anyone             /closed/<repo>  user "ann", password "s3cret"
  /forbidden/<repo> 403 for all        /slow/<repo>    answers once the file `release` is there
  /moved/<repo>     sends to /closed/<repo> at another name of this machine

Writes its port to the file `port`, and the Host and user of every login to the file `logins`."""
import base64
import http.server
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent
GOOD = "Basic " + base64.b64encode(b"ann:s3cret").decode()


class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        door, _, rest = self.path[1:].partition("/")
        login = self.headers.get("Authorization")
        if login:
            with open(ROOT / "logins", "a", encoding="utf-8") as log:
                log.write(f"{self.headers['Host']} {base64.b64decode(login.split()[1]).decode()}\n")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self.chunks()
        if door == "forbidden":
            return self.say(403, b"no")
        if door == "moved":
            port = self.server.server_address[1]
            return self.say(302, b"", [("Location", f"http://localhost:{port}/closed/{rest}")])
        if door == "closed" and login != GOOD:
            return self.say(401, b"who?", [("WWW-Authenticate", 'Basic realm="tests"')])
        while door == "slow" and not (ROOT / "release").exists():
            time.sleep(0.02)
        return self.backend(rest, body)

    do_POST = do_GET

    def chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def say(self, status, body, headers=()):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def backend(self, rest, body):
        path, _, query = rest.partition("?")
        env = dict(os.environ, GIT_PROJECT_ROOT=str(ROOT / "repos"), GIT_HTTP_EXPORT_ALL="1", PATH_INFO="/" + path,
                   QUERY_STRING=query, REQUEST_METHOD=self.command, REMOTE_USER="ann", REMOTE_ADDR="127.0.0.1",
                   CONTENT_TYPE=self.headers.get("Content-Type") or "", CONTENT_LENGTH=str(len(body)),
                   HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding") or "",
                   GIT_PROTOCOL=self.headers.get("Git-Protocol") or "")
        out = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env=env, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n") if ": " in line]
        status = next((int(v.split()[0]) for k, v in headers if k == "Status"), 200)
        self.say(status, content, [(k, v) for k, v in headers if k != "Status"])

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    (ROOT / "port.new").write_text(str(server.server_address[1]))
    (ROOT / "port.new").rename(ROOT / "port")
    server.serve_forever()
