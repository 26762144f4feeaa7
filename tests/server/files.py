#!/usr/bin/env python3
"""Files of a sandbox over HTTP: every call of the toolbox, what the SDKs rely on, and clients that misbehave."""
import hashlib
import http.client
import json
import os
import re
import secrets
import socket
import threading
import urllib.parse

from lib import Answer, Server, Work, equal, has, main, ok, until

MIB = 1 << 20


class Place:
    """A fresh directory of the sandbox, and a client for it. Paths are relative to the work directory."""

    def __init__(self, server, box):
        self.client, self.box, self.port, self.key = server.client(), box, server.port, server.key()
        self.dir = "t" + secrets.token_hex(4)
        self.ask("POST", "files/folder", path=self.dir, mode="755")

    def url(self, call, query):
        return f"/toolbox/{self.box}/{call}" + ("?" + urllib.parse.urlencode(query) if query else "")

    def ask(self, method, call, body=None, data=None, headers=None, **query):
        return self.client.ask(method, self.url(call, query), body=body, data=data, headers=headers)

    def __truediv__(self, name):
        return f"{self.dir}/{name}"

    def put(self, name, content, **query):
        return self.ask("POST", "files/upload-v2", data=content, path=self / name,
                        headers={"Content-Type": "application/octet-stream"})

    def get(self, name):
        return self.ask("GET", "files/download", path=self / name)

    def names(self, name=""):
        said = self.ask("GET", "files", path=self / name)
        return [f["name"] for f in said.json] if said.status == 200 else [f"..{said.status}"]


def form(parts, border=None):
    """(name, filename or None, content)… as multipart/form-data: its body and its type."""
    border = border or secrets.token_hex(16)
    out = []
    for name, filename, content in parts:
        file = f'; filename="{filename}"\r\nContent-Type: application/octet-stream' if filename is not None else ""
        out += [f'--{border}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode(), content, b"\r\n"]
    return b"".join(out) + f"--{border}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={border}"}


def upload(place, files, interleaved=True):
    paths = [(f"files[{i}].path", None, place / name if isinstance(name, str) else name)
             for i, (name, _) in enumerate(files)]
    paths = [(n, f, p.encode() if isinstance(p, str) else p) for n, f, p in paths]
    contents = [(f"files[{i}].file", "base", content) for i, (_, content) in enumerate(files)]
    parts = [p for pair in zip(paths, contents) for p in pair] if interleaved else paths + contents
    data, headers = form(parts)
    return place.ask("POST", "files/bulk-upload", data=data, headers=headers)


def parts_of(answer):
    """A bulk download, strictly read: [(name, filename, filename*, content)]."""
    kind = answer.headers["Content-Type"]
    border = re.fullmatch(r"multipart/form-data; boundary=(\S+)", kind).group(1).encode()
    data, at, parts = answer.data, 0, []
    while True:
        if not data.startswith(b"--" + border, at):
            raise ValueError(f"no boundary at {data[at:at + 80]!r}")
        at += len(border) + 2
        if data[at:] == b"--\r\n":
            return parts
        end = data.index(b"\r\n\r\n", at)
        lines = dict(line.split(": ", 1) for line in data[at + 2:end].decode("latin-1").split("\r\n"))
        length = int(lines["Content-Length"])
        said = re.fullmatch(r'form-data; name="(\w+)"; filename="(.*)"; filename\*=utf-8\'\'(\S*)',
                            lines["Content-Disposition"])
        at = end + 4
        parts.append((said.group(1), said.group(2), urllib.parse.unquote(said.group(3)), data[at:at + length]))
        at += length
        if data[at:at + 2] != b"\r\n":
            raise ValueError("no line end behind a part")
        at += 2


def uploads_arrive_byte_for_byte(place):
    big = secrets.token_bytes(3 * MIB)
    files = [("a.txt", b"hello"), ("empty", b""), ("deep/er/b.bin", bytes(range(256))), ("big", big),
             ("edge", secrets.token_bytes(256 * 1024)), ("edge1", secrets.token_bytes(256 * 1024 + 1)),
             ("ü 日本 \"q\".txt", b"\r\n--x\r\n")]
    for interleaved in (True, False):
        said = upload(place, files, interleaved)
        equal((said.status, said.json["files"]),
              (200, [{"path": place / name, "bytes": len(content)} for name, content in files]),
              f"seven files, paths {'with their files' if interleaved else 'first'}")
        for name, content in files:
            got = place.get(name)
            equal((got.status, hashlib.sha256(got.data).hexdigest()), (200, hashlib.sha256(content).hexdigest()),
                  f"{name} is what was sent")
    info = place.ask("GET", "files/info", path=place / "deep/er").json
    equal((info["permissions"], info["owner"], info["isDir"]), ("0755", "1000", True), "parents are 0755 and the user's")
    info = place.ask("GET", "files/info", path=place / "big").json
    equal((info["permissions"], info["owner"], info["size"]), ("0644", "1000", len(big)), "files are 0644 and the user's")
    ok(until(lambda: not [n for n in place.names() if n.startswith(".")]), "nothing of the work is left")
    name = f"/tmp/{place.dir}"
    said = place.ask("POST", "files/upload-v2", data=big, path=name, headers={"Content-Type": "application/octet-stream"})
    equal(said.status, 200, "what lies in memory")
    equal(place.ask("GET", "files/download", path=name).data == big, True, "is what was sent, too")


def existing_files_are_replaced_and_keep_mode_and_links(place):
    for size, name in ((10, "small"), (MIB, "large")):
        place.put(name, b"x" * 100)
        place.ask("POST", "files/permissions", path=place / name, mode="600")
        content = secrets.token_bytes(size)
        equal(place.put(name, content).status, 200, f"{name}: again")
        equal(place.get(name).data, content, f"{name}: all new")
        equal(place.ask("GET", "files/info", path=place / name).json["permissions"], "0600", f"{name}: the mode stays")
        said = place.client.execute(place.box, f"sh -c 'cd {place.dir}; ln -s {name} l-{name}; ln {name} h-{name}'")
        equal(said.json.get("exitCode"), 0, f"{name}: links to it")
        other = secrets.token_bytes(size)
        equal(place.put(f"l-{name}", other).status, 200, f"{name}: through the symlink")
        equal([place.get(n).data == other for n in (name, f"l-{name}", f"h-{name}")], [True] * 3,
              f"{name}: every name of it has the new contents")
    equal(place.put("d/f", b"1").status, 200, "a file makes its directory")
    said = place.put("d", b"x" * MIB)
    equal((said.status, said.json["code"]), (400, "INVALID_FILE_PATH"), "a large file onto a directory")
    said = place.put("d", b"x")
    equal((said.status, said.json["code"]), (400, "INVALID_FILE_PATH"), "a small file onto a directory")
    said = place.put("d/f/g", b"x")
    equal(said.status in (404, 409), True, "a file below a file")


def uploads_of_one_file(place):
    data, headers = form([("file", "whatever", b"content")])
    said = place.ask("POST", "files/upload-v2", data=data, headers=headers, path=place / "v2")
    equal((said.status, said.json), (200, {"name": "v2", "path": place / "v2", "type": "file"}), "upload-v2, a form")
    said = place.put("x/raw", b"raw bytes")
    equal((said.status, said.json), (200, {"name": "raw", "path": place / "x/raw", "type": "file"}), "upload-v2, raw")
    equal(place.get("x/raw").data, b"raw bytes", "raw bytes arrived")
    equal(place.put("none", b"").status, 200, "upload-v2 of nothing")
    equal(place.get("none").data, b"", "nothing arrived")
    said = place.ask("POST", "files/upload", data=data, headers=headers, path=place / "v1")
    equal((said.status, said.data), (200, b""), "upload")
    equal(place.get("v1").data, b"content", "its contents")
    equal(place.ask("POST", "files/upload", data=data, headers=headers).status, 400, "without a path")
    data, headers = form([("other", "f", b"x")])
    equal(place.ask("POST", "files/upload", data=data, headers=headers, path=place / "no").status, 400, "without a file")
    equal(place.ask("POST", "files/upload", body={}, path=place / "no").status, 400, "not a form")


def broken_uploads_are_told(place):
    data, headers = form([("files[0].file", "f", b"x")])
    said = place.ask("POST", "files/bulk-upload", data=data, headers=headers)
    equal(said.status, 400, "a file without a path")
    ok(isinstance(said.json["message"], str) and said.json["errors"] and said.json["files"] == [], "as the SDKs read it")
    said = upload(place, [("good", b"1"), (b"/proc/no/such", b"2"), ("good2", b"3")])
    equal((said.status, [f["bytes"] for f in said.json["files"]], len(said.json["errors"])), (400, [1, 1], 1),
          "one of three fails, the others arrive")
    said = upload(place, [("good", b"1"), (b"/etc/passwd", b"2")])
    equal((said.status, said.json["code"]), (403, "FILE_ACCESS_DENIED"), "a refused one among several is told as one alone")
    place.client.execute(place.box, "head -c 300000000 /dev/zero > /tmp/filler")
    said = upload(place, [("good", b"1"), (b"/tmp/more", b"2" * MIB)])
    equal((said.status, said.json["code"]), (507, "DISK_FULL"), "so is a full disk")
    place.client.execute(place.box, "rm /tmp/filler")
    equal((place.get("good").data, place.get("good2").data), (b"1", b"3"), "they are there")
    for size in (10, MIB):
        data, headers = form([("files[0].path", None, (place / "cut").encode()), ("files[0].file", "f", b"y" * size)])
        said = place.ask("POST", "files/bulk-upload", data=data[:-20], headers=headers)
        equal(said.status, 400, f"a form without its end, {size} bytes")
        equal(place.get("cut").status, 404, "leaves no file")
    equal(place.ask("POST", "files/bulk-upload", data=b"x", headers={"Content-Type": "multipart/form-data"}).status, 400,
          "no boundary")
    ok(until(lambda: not [n for n in place.names() if n.startswith(".")]), "nothing of the work is left")


def downloads_in_parts(place):
    big = secrets.token_bytes(2 * MIB)
    upload(place, [("a", b"one"), ("empty", b""), ("b b", big), ("日本ü\"\\.txt", b"names")])
    wanted = [place / "a", place / "nope", place / "empty", place / "b b", place / "日本ü\"\\.txt", place.dir,
              "./" + place.dir + "/a", "/etc/hostname", "/dev/zero"]
    said = place.ask("POST", "files/bulk-download", {"paths": wanted})
    equal(said.status, 200, "bulk-download")
    parts = parts_of(said)
    equal([p[2] for p in parts], wanted, "filename* is exactly what was asked for, in order")
    equal([p[0] for p in parts],
          ["file", "error", "file", "file", "file", "error", "file", "file", "error"], "files and errors")
    equal([parts[i][3] for i in (0, 2, 3, 4, 6)], [b"one", b"", big, b"names", b"one"], "contents")
    equal(parts[4][1], place.dir + "/__\xfc\\\"\\\\.txt", "the plain filename is Latin-1 with escapes")
    errors = [json.loads(p[3]) for p in parts if p[0] == "error"]
    equal([(e["statusCode"], e["code"], e["source"]) for e in errors],
          [(404, "FILE_NOT_FOUND", "DAYTONA_DAEMON"), (400, "INVALID_FILE_PATH", "DAYTONA_DAEMON"),
           (400, "INVALID_FILE_PATH", "DAYTONA_DAEMON")], "errors as the toolbox tells them")
    equal(place.ask("POST", "files/bulk-download", {"paths": []}).status, 400, "no paths")
    equal(place.ask("POST", "files/bulk-download", {"paths": [1]}).status, 400, "no strings")
    equal(place.ask("POST", "files/bulk-download", {}).status, 400, "nothing")


def downloads_of_one_file(place):
    place.put("f", b"bytes \x00 \xff")
    said = place.get("f")
    equal((said.status, said.data, said.headers["Content-Type"], said.headers["Content-Length"]),
          (200, b"bytes \x00 \xff", "application/octet-stream", "9"), "download")
    has(said.headers["Content-Disposition"], "attachment", "is saved, not shown")
    said = place.get("nope")
    equal((said.status, said.json["code"], said.json["source"]), (404, "FILE_NOT_FOUND", "DAYTONA_DAEMON"), "missing")
    said = place.ask("GET", "files/download", path=place.dir)
    equal((said.status, said.json["code"]), (400, "INVALID_FILE_PATH"), "a directory")
    place.put("closed", b"")
    place.ask("POST", "files/permissions", path=place / "closed", mode="0")
    said = place.get("closed")
    equal((said.status, said.json["code"]), (403, "FILE_ACCESS_DENIED"), "what the user may not read")
    equal(place.ask("GET", "files/download").status, 400, "no path")
    place.client.execute(place.box, f"mkfifo {place.dir}/fifo")
    equal(place.get("fifo").status, 400, "a FIFO is refused and hangs nobody")


def listings(place):
    upload(place, [("b", b"12345"), ("a/c/d", b"1"), ("B", b"")])
    place.client.execute(place.box, f"sh -c 'cd {place.dir}; ln -s b link; ln -s no dangling; ln -s a dirlink; mkdir -m 1777 tmp'")
    said = place.ask("GET", "files", path=place.dir)
    files = said.json
    equal((said.status, [f["name"] for f in files]), (200, ["B", "a", "b", "dirlink", "link", "tmp"]),
          "sorted, links followed, dangling ones left out")
    b = files[2]
    equal({k: b[k] for k in ("name", "size", "mode", "isDir", "owner", "group", "permissions")},
          {"name": "b", "size": 5, "mode": "-rw-r--r--", "isDir": False, "owner": "1000", "group": "1000",
           "permissions": "0644"}, "a FileInfo")
    ok(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", b["modifiedAt"]), "modifiedAt is RFC 3339", b)
    ok(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \+0000 UTC", b["modTime"]), "modTime is Go's", b)
    equal(b["path"], f"/home/daytona/{place.dir}/b", "path is the full one")
    equal((files[3]["isDir"], files[4]["size"]), (True, 5), "links are told as what they lead to")
    equal(files[5]["mode"], "dtrwxrwxrwx", "a sticky directory in Go's letters")
    deep = place.ask("GET", "files", path=place.dir, depth=3).json
    equal([f["path"].split(place.dir + "/")[1] for f in deep],
          ["B", "a", "a/c", "a/c/d", "b", "dirlink", "link", "tmp"], "depth 3")
    equal([f["name"] for f in place.ask("GET", "files", path=place.dir, depth=1).json],
          [f["name"] for f in files], "depth 1 is the directory alone")
    equal(place.ask("GET", "files", path=place.dir, depth=0).status, 400, "depth 0")
    ok(place.dir in [f["name"] for f in place.ask("GET", "files").json], "no path: the work directory")
    equal(place.ask("GET", "files", path=place / "nope").json["code"], "FILE_NOT_FOUND", "a missing directory")
    equal(place.ask("GET", "files", path=place / "b").status, 404, "not a directory")


def infos(place):
    place.put("f", b"123")
    said = place.ask("GET", "files/info", path=place / "f")
    equal((said.status, said.json["name"], said.json["size"], said.json["isDir"]), (200, "f", 3, False), "info")
    equal(place.ask("GET", "files/info", path=place / "nope").status, 404, "missing")
    equal(place.ask("GET", "files/info").status, 400, "no path")
    equal(place.ask("GET", "files/info", path="/proc/self/root").status in (200, 400, 403, 404), True, "a magic link")
    equal(place.ask("GET", "files/info", path="x" * 5000).status, 400, "an endless path")


def folders_and_deletes(place):
    said = place.ask("POST", "files/folder", path=place / "x/y", mode="700")
    equal((said.status, said.data), (201, b""), "folder")
    equal(place.ask("GET", "files/info", path=place / "x/y").json["permissions"], "0700", "its mode")
    equal(place.ask("POST", "files/folder", path=place / "x/y", mode="755").status, 201, "once more")
    equal(place.ask("POST", "files/folder", path=place / "z").status, 201, "without a mode")
    equal(place.ask("POST", "files/folder", path=place / "q", mode="9").status, 400, "a bad mode")
    place.put("x/f", b"1")
    said = place.ask("DELETE", "files", path=place / "x")
    equal(said.status, 400, "a directory without recursive")
    equal(place.ask("DELETE", "files", path=place / "z").status, 400, "an empty one too")
    equal(place.ask("DELETE", "files", path=place / "x/f").status, 204, "a file")
    said = place.ask("DELETE", "files", path=place / "x/f")
    equal((said.status, said.json["code"]), (404, "FILE_NOT_FOUND"), "a file that is gone")
    place.put("x/f", b"1")
    equal(place.ask("DELETE", "files", path=place / "x", recursive="true").status, 204, "recursive")
    equal(place.ask("GET", "files/info", path=place / "x").status, 404, "all of it is gone")
    equal(place.ask("DELETE", "files").status, 400, "no path")


def finds_and_searches(place):
    upload(place, [("a.py", b"one\nneedle here\nthree"), ("sub/b.py", b"x\r\nneedle\r\n"), ("c.txt", b"no"),
                   ("bin", b"\0needle"), ("late", b"needle\n" + b"x" * 600 + b"\0")])
    said = place.ask("GET", "files/find", path=place.dir, pattern="needle")
    equal((said.status, sorted((m["file"], m["line"], m["content"]) for m in said.json)),
          (200, [(place / "a.py", 2, "needle here"), (place / "late", 1, "needle"), (place / "sub/b.py", 2, "needle")]),
          "find: lines that hold it, binary files passed over")
    equal(place.ask("GET", "files/find", path=place.dir, pattern="n.*e").json, [], "literally")
    absolute = f"/home/daytona/{place.dir}"
    equal([m["file"] for m in place.ask("GET", "files/find", path=absolute, pattern="three").json],
          [absolute + "/a.py"], "an absolute path is answered with absolute ones")
    said = place.ask("GET", "files/search", path=place.dir, pattern="*.py")
    equal((said.status, sorted(said.json["files"])), (200, [place / "a.py", place / "sub/b.py"]), "search: a glob")
    equal(place.ask("GET", "files/search", path=place.dir, pattern="su?").json["files"], [place / "sub"], "directories too")
    equal(place.ask("GET", "files/search", path=place / "no", pattern="*").status, 404, "nowhere")
    equal(place.ask("GET", "files/search", path=place.dir).status, 400, "no pattern")
    said = place.ask("POST", "files/replace", {"files": [place / "a.py", place / "nope", place / "c.txt"],
                                               "pattern": "one", "newValue": "1.1"})
    equal((said.status, [(r["file"], r["success"]) for r in said.json]),
          (200, [(place / "a.py", True), (place / "nope", False), (place / "c.txt", True)]), "replace")
    ok(isinstance(said.json[1]["error"], str), "with the reason")
    equal(place.get("a.py").data, b"1.1\nneedle here\nthree", "it is replaced")
    equal(place.ask("POST", "files/replace", {"files": [place / "a.py"], "pattern": "1.1\n", "newValue": ""}).json,
          [{"file": place / "a.py", "success": True}], "by nothing")
    equal(place.ask("POST", "files/replace", {"files": [], "pattern": "", "newValue": "x"}).status, 400, "no pattern")


def moves_and_permissions(place):
    upload(place, [("a", b"A"), ("b", b"B"), ("d/x", b"")])
    said = place.ask("POST", "files/move", source=place / "a", destination=place / "c")
    equal((said.status, place.get("c").data), (200, b"A"), "move")
    said = place.ask("POST", "files/move", source=place / "b", destination=place / "c")
    equal(said.status, 409, "onto a file")
    has(said.json["message"], f"{place / 'c'}': File exists", "both are named")
    equal(place.ask("POST", "files/move", source=place / "b", destination=place / "d").status, 409, "onto a directory")
    equal(place.get("c").data, b"A", "what was there is there")
    equal(place.ask("POST", "files/move", source=place / "no", destination=place / "e").status, 404, "no source")
    equal(place.ask("POST", "files/move", source=place / "b", destination=place / "no/e").status, 404, "no parent")
    equal(place.ask("POST", "files/move", source=place / "d", destination=place / "d/e").status, 400, "into itself")
    equal(place.ask("POST", "files/move", source=place / "d", destination=place / "dd").status, 200, "a directory")
    equal(place.ask("POST", "files/move", source=place / "b").status, 400, "no destination")
    equal(place.ask("POST", "files/permissions", path=place / "c", mode="0750").status, 200, "permissions")
    equal(place.ask("GET", "files/info", path=place / "c").json["mode"], "-rwxr-x---", "they are changed")
    equal(place.ask("POST", "files/permissions", path=place / "c", owner="daytona", group="1000").status, 200,
          "to its own owner")
    equal(place.ask("POST", "files/permissions", path=place / "c", owner="root").status, 403, "to another one")
    equal(place.ask("POST", "files/permissions", path=place / "c", owner="nobody-knows").status, 400, "to nobody")
    has(place.ask("POST", "files/permissions", path=place / "c", group="nobodies").json["message"], "not known",
        "with a reason")
    equal(place.ask("POST", "files/permissions", path=place / "c", mode="rwx").status, 400, "a bad mode")
    equal(place.ask("POST", "files/permissions", path=place / "no", mode="644").status, 404, "of nothing")


def raw(place, head, query):
    """A connection with a request's head sent on it."""
    s = socket.create_connection(("127.0.0.1", place.port), timeout=30)
    s.sendall((f"{head[0]} {place.url(head[1], query)} HTTP/1.1\r\nHost: 127.0.0.1:{place.port}\r\n"
               f"Authorization: Bearer {place.key}\r\n").encode() + head[2])
    return s


def a_client_that_leaves_leaves_no_half_file(place):
    place.put("old", b"old contents")
    for name in ("new", "old"):
        s = raw(place, ("POST", "files/upload-v2", b"Content-Length: 50000000\r\n\r\n"), {"path": place / name})
        s.sendall(b"x" * (4 * MIB))
        ok(until(lambda: [n for n in place.names() if n.startswith(".caisson-upload-")]),
           f"{name}: it is being written beside")
        s.close()
        ok(until(lambda: not [n for n in place.names() if n.startswith(".")]), f"{name}: and gone when its client is")
    equal(place.get("new").status, 404, "no half file")
    equal(place.get("old").data, b"old contents", "the old one is whole")


def a_client_that_leaves_in_the_middle_of_a_download(place):
    place.put("big", secrets.token_bytes(8 * MIB))
    s = raw(place, ("GET", "files/download", b"\r\n"), {"path": place / "big"})
    s.recv(1000)
    s.close()
    body = json.dumps({"paths": [place / "big"] * 3}).encode()
    s = raw(place, ("POST", "files/bulk-download", b"Content-Length: %d\r\n\r\n" % len(body) + body), {})
    s.recv(1000)
    s.close()
    equal(place.get("big").status, 200, "the server is well")


def a_reader_who_takes_its_time_gets_all(place):
    contents = {f"f{i}": secrets.token_bytes(4 * MIB + i) for i in range(6)}
    contents.update({f"s{i}": secrets.token_bytes(20000 + i) for i in range(40)})
    upload(place, list(contents.items()))
    names = sorted(contents, reverse=True)
    body = json.dumps({"paths": [place / n for n in names]}).encode()
    s = raw(place, ("POST", "files/bulk-download", b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body), {})
    equal(place.get("s1").status, 200, "while one does not read, others are served")
    answer = http.client.HTTPResponse(s)
    answer.begin()
    pieces = []
    while piece := answer.read(50000):
        pieces.append(piece)
    s.close()
    parts = parts_of(Answer(answer.status, answer.headers, b"".join(pieces)))
    equal([p[2] for p in parts], [place / n for n in names], "46 parts in order")
    ok(all(p[3] == contents[n] for p, n in zip(parts, names)), "byte for byte")


def a_chunked_upload_with_100_continue(place):
    s = raw(place, ("POST", "files/upload-v2", b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"),
            {"path": place / "chunked"})
    has(s.recv(1000), b"100 Continue", "is told to go on")
    content = secrets.token_bytes(700000)
    for at in range(0, len(content), 70000):
        piece = content[at:at + 70000]
        s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
    s.sendall(b"0\r\n\r\n")
    has(s.recv(1000), b" 200 ", "is taken")
    s.close()
    equal(place.get("chunked").data, content, "byte for byte")


def many_at_once(place):
    contents = {f"f{i}": secrets.token_bytes(300000 + i) for i in range(12)}
    bad = []

    def one(name):
        own = Place.__new__(Place)
        own.__dict__.update(place.__dict__)
        own.client = type(place.client)(place.port, place.key)
        if own.put(name, contents[name]).status != 200 or own.get(name).data != contents[name]:
            bad.append(name)
        own.client.close()

    workers = [threading.Thread(target=one, args=(name,)) for name in contents]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    equal(bad, [], "twelve uploads and downloads at once")


def links_that_flip_do_no_harm(place):
    """R34: a directory that becomes a link to elsewhere and back, while files are written through it."""
    place.client.execute(place.box, f"sh -c 'cd {place.dir}; mkdir real; (i=0; while [ $i -lt 2000 ]; do ln -sfn /etc flip; "
                                    f"rm flip; mkdir flip; rmdir flip; i=$((i+1)); done) >/dev/null 2>&1 &'")
    statuses = set()
    for i in range(60):
        statuses.add(place.put(f"flip/f{i % 3}", b"x").status)
        statuses.add(place.ask("DELETE", "files", path=place / "flip", recursive="true").status)
        statuses.add(place.ask("GET", "files", path=place / "flip").status)
    ok(statuses <= {200, 204, 400, 403, 404, 409}, "every answer is a plain one", statuses)
    host = os.listdir("/etc")
    equal([n for n in host if n in ("f0", "f1", "f2")], [], "nothing came to the host")


def a_full_disk_is_told(server):
    """R35: uploads are charged to the sandbox, small and large ones, before they hurt."""
    made = server.client().ask("POST", "/api/sandbox", {"cpu": 1, "memory": 1, "disk": 1,
                                                        "buildInfo": {"dockerfileContent": "FROM host\n"}})
    equal(made.status, 200, "a sandbox with a disk of 1 GiB")
    place = Place(server, made.json["id"])
    said = place.client.execute(place.box, f"fallocate -l 990M {place.dir}/ballast")
    equal(said.json.get("exitCode"), 0, "most of it is in use")
    place.put("large", b"old")

    def too_much():
        said = place.put("large", b"x" * (64 * MIB))
        # 409: nobody had counted yet, and then all that ran inside was killed, what moves an upload too
        return (said.status, said.json.get("code")) if said.status not in (200, 409) else None

    equal(until(too_much), (507, "DISK_FULL"), "a large upload does not fit")
    ok(len(place.get("large").data) in (3, 64 * MIB), "and leaves what was there")
    ok(until(lambda: not [n for n in place.names() if n.startswith(".")]), "and nothing of itself")
    place.client.execute(place.box, f"sh -c 'fallocate -l 200M {place.dir}/more; sleep 30'")
    equal(until(lambda: (lambda a: a.status if a.status != 200 else None)(place.put("small", b"x"))), 507,
          "when it is full, small ones are refused too")
    equal(place.ask("DELETE", "files", path=place.dir, recursive="true").status, 204, "deleting goes on")
    equal(until(lambda: (lambda a: a.status if a.status == 200 else None)(place.put("small", b"x"))), 200,
          "and makes room")
    server.client().ask("DELETE", f"/api/sandbox/{made.json['id']}")


def a_disk_can_be_used_to_its_end(server):
    """What is reserved ahead while an upload runs is neither kept nor counted twice."""
    made = server.client().ask("POST", "/api/sandbox", {"cpu": 1, "memory": 1, "disk": 1,
                                                        "buildInfo": {"dockerfileContent": "FROM host\n"}})
    equal(made.status, 200, "a sandbox with a disk of 1 GiB")
    place = Place(server, made.json["id"])
    said = place.client.execute(place.box, f"fallocate -l 650M {place.dir}/ballast")
    equal(said.json.get("exitCode"), 0, "650 MiB of it are in use")
    content = secrets.token_bytes(MIB) * 350 + b"and some"
    said = upload(place, [("large", content)])
    equal((said.status, said.json.get("files")), (200, [{"path": place / "large", "bytes": len(content)}]), "350 more fit")
    said = place.client.execute(place.box, f"sh -c 'cd {place.dir}; stat -c %s large; echo $(($(stat -c %b large) / 2048));"
                                           " sha256sum large'")
    equal(said.json["result"].split()[:3], [str(len(content)), "350", hashlib.sha256(content).hexdigest()],
          "all of it came and it takes no more than that")
    equal(until(lambda: (lambda a: a.status if a.status not in (200, 409) else None)(place.put("more", b"x" * (64 * MIB)))), 507,
          "another 64 don't, once it is counted")
    ok(until(lambda: not [n for n in place.names() if n.startswith(".")]), "and leave nothing")
    server.client().ask("DELETE", f"/api/sandbox/{made.json['id']}")


TESTS = [uploads_arrive_byte_for_byte, existing_files_are_replaced_and_keep_mode_and_links, uploads_of_one_file,
         broken_uploads_are_told, downloads_in_parts, downloads_of_one_file, listings, infos, folders_and_deletes,
         finds_and_searches, moves_and_permissions, a_client_that_leaves_leaves_no_half_file,
         a_client_that_leaves_in_the_middle_of_a_download, a_reader_who_takes_its_time_gets_all,
         a_chunked_upload_with_100_continue, many_at_once,
         links_that_flip_do_no_harm]

if __name__ == "__main__":
    with Work() as work:
        server = Server(work).start()
        try:
            made = server.client().ask("POST", "/api/sandbox", {})
            equal(made.status, 200, "a sandbox")

            def with_place(test):
                def run():
                    test(Place(server, made.json["id"]))
                run.__name__ = test.__name__
                return run

            def disk():
                a_full_disk_is_told(server)

            def end():
                a_disk_can_be_used_to_its_end(server)

            disk.__name__ = a_full_disk_is_told.__name__
            end.__name__ = a_disk_can_be_used_to_its_end.__name__
            main([with_place(test) for test in TESTS] + [disk, end])
        finally:
            server.kill()
