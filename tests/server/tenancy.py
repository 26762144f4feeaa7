#!/usr/bin/env python3
"""Two organisations: with the other's key every route that names something of ours answers 404 and changes nothing.

The routes come from the program's own table (`caisson-serve --routes`), so a new one can't be forgotten: a parameter this
test does not know how to fill fails it.
"""
import json
import secrets
import subprocess

from lib import BUILD, Server, Work, equal, main, ok, run

# Bodies that are right in themselves, so that nothing but the owner can be the reason to refuse.
BODIES = {
    "/sandbox/{}/labels": {"labels": {"stolen": "yes"}},
    "/sandbox/{}/resize": {"cpu": 1},
    "/sandbox/{}/fork": {},
    "/sandbox/{}/snapshot": {"name": "stolen"},
    "/sandbox/{}/network-settings": {"networkBlockAll": True},
    "/sandbox/{}/secrets": {"secrets": []},
}


class Ours:
    """What the first organisation has: one of everything."""

    def __init__(self, client):
        self.client = client
        self.name = "ours-" + secrets.token_hex(4)
        made = client.ask("POST", "/api/sandbox", {"name": self.name, "labels": {"mine": "yes"}, "autoStopInterval": 0})
        self.box = made.json["id"]
        client.upload(self.box, "secret.txt", b"our secret")
        volume = client.ask("POST", "/api/volumes", {"name": "our-volume"})
        self.volume = volume.json["id"]
        self.session = "our-session"
        client.ask("POST", f"/toolbox/{self.box}/process/session", {"sessionId": self.session})
        started = client.ask("POST", f"/toolbox/{self.box}/process/session/{self.session}/exec",
                             {"command": "sleep 1000", "runAsync": True})
        self.command = started.json.get("cmdId", "1")
        shot = client.ask("POST", f"/api/sandbox/{self.box}/snapshot", {"name": "our-snapshot"})
        self.has_snapshot = shot.status == 200
        found = client.ask("GET", "/api/snapshots/our-snapshot")
        self.snapshot = found.json["id"] if found.status == 200 else "our-snapshot"
        keys = client.ask("GET", "/api/api-keys")
        self.key_name = keys.json[0]["name"] if keys.status == 200 and keys.json else "first"
        organizations = client.ask("GET", "/api/organizations")
        self.org = organizations.json[0]["id"] if organizations.status == 200 and organizations.json else "none"

    def ids(self):
        return [self.box, self.name, self.volume, "our-volume", "our-snapshot", self.snapshot, self.org, "our secret"]

    def picture(self):
        """All of it, without what time itself changes."""
        box = self.client.ask("GET", f"/api/sandbox/{self.box}").json
        for key in ("lastActivityAt", "updatedAt"):
            box.pop(key, None)
        sessions = self.client.ask("GET", f"/toolbox/{self.box}/process/session")
        return {
            "sandbox": box,
            "file": self.client.download(self.box, "secret.txt").data,
            "files": sorted(f["name"] for f in self.client.ask("GET", f"/toolbox/{self.box}/files?path=.").json),
            "volumes": [(v["id"], v["name"], v["state"]) for v in self.client.ask("GET", "/api/volumes").json],
            "snapshots": sorted(s["name"] for s in self.client.ask("GET", "/api/snapshots").json["items"]),
            "sessions": [(s["sessionId"], len(s["commands"])) for s in sessions.json],
            "keys": [k["name"] for k in self.client.ask("GET", "/api/api-keys").json],
        }


def values_of(pattern, ours):
    """What to put into each {} of a route's pattern."""
    parts = pattern.strip("/").split("/")
    values = []
    for i, part in enumerate(parts):
        if part != "{}":
            continue
        before = parts[i - 1] if i else ""
        known = {"sandbox": ours.box, "volumes": ours.volume, "by-name": "our-volume", "snapshots": ours.snapshot,
                 "api-keys": ours.key_name, "organizations": ours.org, "session": ours.session,
                 "command": ours.command, "preview": ours.box, "toolbox": ours.box}
        harmless = {"ports": "8080", "port": "8080", "autostop": "1", "autoarchive": "1", "autodelete": "0", "autopause": "1",
                    "ttl": "1", "public": "true", "signed-preview-url": "x", "context": "x", "pty": "x", "kill": "1",
                    "contexts": "x", "interpreter": "x", "regions": "local", "users": "x", "recordings": "x",
                    "lsp": "start", "computeruse": "start"}
        if before in known:
            values.append(known[before])
        elif parts[0] == "computeruse":
            values.append("x")
        elif parts[:2] == ["preview", "{}"] and i == 2:
            values.append("8080")
        elif before in harmless:
            values.append(harmless[before])
        elif "api-keys" in parts and i == parts.index("api-keys") + 2:
            values.append(ours.key_name)
        else:
            return None
    return values


def fill(pattern, values):
    for value in values:
        pattern = pattern.replace("{}", value, 1)
    return pattern


def path_of(route, ours):
    values = values_of(route["pattern"], ours)
    if values is None:
        return None
    path = fill(route["pattern"], values)
    if route["plane"] == "toolbox":
        return f"/toolbox/{ours.box}{path}"
    return ("/api" if route["plane"] == "api" else "") + path


def ask(client, route, path, headers=None):
    head = dict(headers or {})
    body = data = None
    if route["ws"]:
        head.update({"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                     "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    if route["body"] == "whole":
        body = BODIES.get(route["pattern"], {})
    if route["body"] == "stream":
        head["Content-Type"] = "multipart/form-data; boundary=b"
        data = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nstolen\r\n--b--\r\n'
    try:
        return client.ask(route["method"], path, body=body, data=data, headers=head)
    finally:
        client.close()


def routes_of():
    text = subprocess.run([BUILD / "caisson-serve", "--routes"], capture_output=True, text=True, check=True).stdout
    return json.loads(text)


def every_route_with_the_others_key():
    with Work() as work:
        state = ("--state", str(work / "state"))
        _, first, _ = run("key", "create", "ours", *state)
        _, second, _ = run("key", "create", "theirs", "--org", "others", *state)
        server = Server(work).start()
        ours = Ours(server.client(first.strip()))
        theirs = server.client(second.strip())
        before = ours.picture()
        n_tenant, n_list, unknown, wrong = 0, 0, [], []
        for route in routes_of():
            what = f"{route['method']} {route['plane']} {route['pattern']}"
            path = path_of(route, ours)
            if path is None:
                unknown.append(what)
                continue
            if route["scope"] == "public":
                continue
            answer = ask(theirs, route, path)
            is_named = route["tenant"] or route["scope"] == "box"
            n_tenant += is_named
            n_list += not is_named
            if is_named and answer.status != 404:
                wrong.append(f"{what}: {answer!r}")
            if not is_named and any(i.encode() in answer.data for i in ours.ids()):
                wrong.append(f"{what} tells of us: {answer!r}")
            if route["pattern"].startswith("/preview/"):  # by its name, and whatever is asked for there
                for where in (path.replace(ours.box, ours.name), path + "/", path + "/a/b?c=d"):
                    answer = ask(theirs, route, where)
                    if answer.status != 404:
                        wrong.append(f"{what}, {where}: {answer!r}")
            if route["plane"] == "api" and "/sandbox/{}" in route["pattern"]:  # by its name too
                answer = ask(theirs, route, path.replace(ours.box, ours.name))
                if answer.status != 404:
                    wrong.append(f"{what}, by name: {answer!r}")
            if is_named:  # claiming to be of our organisation does not help
                answer = ask(theirs, route, path, {"X-Daytona-Organization-ID": ours.org})
                if answer.status not in (401, 403, 404):
                    wrong.append(f"{what}, with our organisation's id: {answer!r}")
            if route["method"] != "GET" or route["scope"] != "box":  # nor does no key, or a wrong one
                answer = ask(Server.client(server, "dtn_" + "0" * 64), route, path)
                if answer.status not in (401, 429):  # 429: too many wrong keys
                    wrong.append(f"{what}, with a wrong key: {answer!r}")
        ok(not unknown, "every parameter of every route is known to this test", *unknown)
        ok(n_tenant > 30, f"{n_tenant} routes name something of ours, {n_list} list or make")
        ok(not wrong, "with the other's key each of them answers 404, and no list tells of us", *wrong)
        equal(ours.picture(), before, "and nothing of ours has changed")
        equal(server.stop(), 0, "the server ends well")


NONSENSE = [b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"command": 5, "labels": [], "name": {}, "files": 7, "path": null}',
            b'{"a":' * 100, b"\xff\xfe", b'{"name":"\\u0000"}']


def every_route_survives_nonsense():
    """Bodies and queries nobody sends, at things that are there and things that are not: refused, never a 5xx."""
    with Work() as work:
        server = Server(work).start()
        ours = Ours(server.client())
        wrong, n = [], 0
        for route in routes_of():
            path = path_of(route, ours)
            if path is None or route["pattern"].endswith(("/push-access", "/stop", "/archive", "/fork")) or route["method"] == "DELETE":
                continue  # these are meant to work without a body, or not at all
            paths = [path, path + "?path=%00&limit=x&page=-1&cursor=%ff&labels=%7B&skipStart=true&port=x",
                     path.replace(ours.box, "nobody").replace(ours.volume, "nobody").replace(ours.session, "nobody")]
            for where in paths:
                for body in NONSENSE if route["body"] != "none" else NONSENSE[:1]:
                    kind = "application/json" if route["body"] == "whole" else "multipart/form-data; boundary=b"
                    client = server.client()
                    try:
                        answer = client.ask(route["method"], where, data=body, headers={"Content-Type": kind})
                        n += 1
                        is_preview = route["pattern"].startswith("/preview/")  # of a port where nothing listens
                        known = 502 if is_preview else 503 if "/computeruse/" in where else 501 # no desktop
                        if answer.status >= 500 and answer.status != known:
                            wrong.append(f"{route['method']} {where} {body[:40]!r}: {answer!r}")
                    except OSError as error:
                        wrong.append(f"{route['method']} {where} {body[:40]!r}: {type(error).__name__}")
                    finally:
                        client.close()
            if server.child.poll() is not None:
                wrong.append(f"{route['method']} {where}: the server is gone")
                break
        ok(not wrong, f"{n} requests that make no sense are refused", *wrong[:30])
        if server.child.poll() is None:
            equal(server.stop(), 0, "the server ends well")


if __name__ == "__main__":
    main([every_route_with_the_others_key, every_route_survives_nonsense])
