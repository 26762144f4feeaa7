#!/usr/bin/env python3
"""Who a preview token lets in, where, and for how long."""
import http.client
import urllib.parse

from lib import Work, equal, is_alive, main, ok, until
from preview import Scene
from websocket import Refused, WebSocket


def link_of(s, port, box=None):
    return s.client.ask("GET", f"/api/sandbox/{box or s.box}/ports/{port}/preview-url").json


def signed_of(s, port, query=""):
    return s.client.ask("GET", f"/api/sandbox/{s.box}/ports/{port}/signed-preview-url{query}").json["token"]


def toolbox(s, token, method="POST", path="/process/execute", body=None):
    """The status of a request to the toolbox with nothing but a token."""
    guest = s.server.client("x")
    guest.key = None
    body = {"command": "true"} if body is None and method == "POST" else body
    answer = guest.ask(method, f"/toolbox/{s.box}{path}", body, headers={"X-Daytona-Preview-Token": token})
    guest.close()
    return answer.status


def socket_status(s, path, **more):
    try:
        WebSocket(s.port, path, "none", **more).leave()
        return 101
    except Refused as error:
        return error.status


def by_name(s, path, port=3000, method="GET", body=None, **headers):
    """status, headers, text: by the name {port}-{sandbox}.localhost, as a browser asks."""
    conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    conn.request(method, path, body, {"Host": f"{port}-{s.box}.localhost:{s.port}",
                                      **{k.replace("_", "-"): v for k, v in headers.items()}})
    answer = conn.getresponse()
    got = answer.status, answer.headers, answer.read().decode()
    conn.close()
    return got


def a_token_opens_its_port(s):
    other = link_of(s, 3001)["token"]
    ok(other != s.token and len(other) == 32, "each port has a token of its own")
    equal(link_of(s, 3000)["token"], s.token, "asked again it is the same one")
    equal([s.get("/health")[0], s.get("/interim", port=3001, token=other)[0]], [200, 200], "each opens its port")
    equal([s.get("/interim", port=3001, token=s.token)[0], s.get("/health", token=other)[0], s.get("/", port=22222, token=s.token)[0]], [403, 403, 403],
          "and no other one")
    ok("opens port 3001 only" in s.get("/health", token=other)[2].decode(), "the answer says which one it opens")
    equal(s.get(f"/health?DAYTONA_SANDBOX_AUTH_KEY={other}", token=None)[0], 403, "nor from the query")
    asked = {path: toolbox(s, s.token, method, path) for method, path in
             (("POST", "/process/execute"), ("GET", "/files?path=."), ("GET", "/work-dir"),
              ("GET", "/files/download?path=app.py"), ("POST", "/process/session"), ("GET", "/process/session"))}
    equal(set(asked.values()), {403}, "nor the toolbox")
    equal(s.get("/work-dir", port=2280, token=s.token)[0], 403, "under no name of it")
    equal(by_name(s, "/work-dir", 2280, x_daytona_preview_token=s.token)[0], 403, "of any kind")
    pty = f"/toolbox/{s.box}/process/interpreter/execute?DAYTONA_SANDBOX_AUTH_KEY={s.token}"
    equal(socket_status(s, pty, headers={"Authorization": ""}), 403, "nor its sockets")


def a_token_of_the_toolbox_opens_sockets(s):
    for port in (2280, 1):
        token = link_of(s, port)["token"]
        head = {"Authorization": "", "X-Daytona-Preview-Token": token}
        equal([toolbox(s, token), toolbox(s, token, "GET", "/files?path=."), toolbox(s, token, "GET", "/process/session"),
               toolbox(s, token, "GET", "/process/interpreter/context")], [403] * 4,
              f"port {port}'s token opens no route of processes and files")
        path = f"/toolbox/{s.box}/process/interpreter/execute"
        equal(socket_status(s, path, headers=head), 101, "but its WebSockets, with a header")
        equal(socket_status(s, f"{path}?DAYTONA_SANDBOX_AUTH_KEY={token}", headers={"Authorization": ""}), 101,
              "or with the query")
        equal(socket_status(s, "/process/interpreter/execute", headers=head), 101, "by the path that Ruby makes of it")
        equal(socket_status(s, f"/preview/{s.box}/2280/process/interpreter/execute", headers=head), 101, "and below the port")
        equal([s.get("/health", token=token)[0], s.get("/", port=1, token=token)[0]], [403, 403], "and no port")
        equal(socket_status(s, f"/preview/{s.box}/3000/ws", headers=head), 403, "nor a socket there")


def a_page_gets_a_cookie(s):
    query = urllib.parse.urlencode({"DAYTONA_SANDBOX_AUTH_KEY": s.token})
    status, headers, _ = by_name(s, f"/mirror?{query}")
    mine = [c for c in headers.get_all("Set-Cookie") if c.startswith(f"daytona-sandbox-auth-{s.box}=")]
    equal((status, len(mine)), (200, 1), "a page opened with the token in the query sets a cookie")
    pair, *words = mine[0].split("; ")
    age = [int(w.split("=")[1]) for w in words if w.startswith("Max-Age=")]
    ok({"HttpOnly", "SameSite=Lax", "Path=/"} <= set(words) and 86000 < age[0] <= 86400, "for this name, as long as the token",
       mine)
    status, headers, text = by_name(s, "/mirror", Cookie=f"theme=dark; {pair}; b=2")
    equal(status, 200, "what the page asks for then comes with the cookie alone")
    ok('["Cookie", "theme=dark; b=2"]' in text and s.token not in text, "which the sandbox is not told", text)
    ok(not any("sandbox-auth" in c for c in headers.get_all("Set-Cookie")), "nor is it set again")
    _, _, text = by_name(s, "/mirror", Cookie=pair)
    ok('"Cookie"' not in text, "no empty header is left of it", text)
    equal(by_name(s, "/interim", 3001, Cookie=pair)[0], 401, "it opens no other port")
    equal(by_name(s, "/work-dir", 2280, Cookie=pair)[0], 401, "nor the toolbox")
    host = f"3000-{s.box}.localhost:{s.port}"
    equal(socket_status(s, "/ws", headers={"Host": host, "Authorization": "", "Cookie": pair, "Origin": f"http://{host}"}), 101,
          "the page's WebSockets come with it as well")
    other = f"http://4000-{s.box}.localhost:{s.port}"
    equal(socket_status(s, "/ws", headers={"Host": host, "Authorization": "", "Cookie": pair, "Origin": other}), 401,
          "but not another page's")
    equal(by_name(s, "/mirror", method="POST", body=b"x", Cookie=pair, Origin=other)[0], 401, "nor what another page sends")
    equal(by_name(s, "/health", Cookie=pair, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors")[0], 401, "or loads")
    equal(by_name(s, "/health", Cookie=pair, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0], 200,
          "a link to it may be followed")
    stale = f"daytona-sandbox-auth-{s.box}={'0' * 32}"
    equal({by_name(s, "/health", Cookie=stale)[0] for _ in range(40)}, {401}, "a stale cookie is no guess")
    equal(by_name(s, "/health", Cookie=stale, Authorization=f"Bearer {s.key}")[0], 200, "and hides no key")
    _, headers, _ = s.get(f"/mirror?{query}", token=None)
    ok(not any("sandbox-auth" in c for c in headers.get_all("Set-Cookie")),
       "by path none is set: there pages of all sandboxes share one origin")
    equal(s.get("/health", token=None, headers={"Cookie": pair})[0], 401, "nor does it count there")


def restart(s):
    front = s.server.front()
    s.server.kill()
    ok(until(lambda: not is_alive(front)), "its other half goes with it")
    s.server.start()
    s.client.close()


def tokens_outlive_the_server(s):
    signed, short = signed_of(s, 3000, "?expiresInSeconds=3600"), signed_of(s, 3000, "?expiresInSeconds=1")
    s.client.execute(s.box, "nohup python3 -m http.server 3005 >/dev/null 2>&1 &")
    mine = link_of(s, 3005)["token"]
    restart(s)
    ok(until(lambda: s.get("/", port=3005, token=mine)[0] == 200, 30), "a token works after the server was killed")
    equal(link_of(s, 3005)["token"], mine, "and is still the one to be had")
    ok(s.get("/", token=None, port=3000, headers={})[0] == 401, "nobody else is let in")
    path = lambda token: s.url.replace(s.box, token)  # noqa: E731 a URL
    ok(until(lambda: fetch(s, path(short)) == 401, 30), "a signed URL that was to end soon ends after it, too")
    equal(fetch(s, path(signed)), 200, "one with more time is still good")


def fetch(s, url):
    conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    conn.request("GET", urllib.parse.urlsplit(url).path + "/health")
    status = conn.getresponse().status
    conn.close()
    return status


def tokens_end_with_a_stop(s):
    signed = signed_of(s, 3000)
    equal(s.client.ask("POST", f"/api/sandbox/{s.box}/stop").status, 200, "stopped")
    equal(s.get("/health")[0], 401, "its token is nobody's")
    s.client.ask("POST", f"/api/sandbox/{s.box}/start")
    equal(s.get("/health")[0], 401, "and is no more, once it is started")
    fresh = link_of(s, 3000)["token"]
    equal((fresh != s.token, s.get("/health", token=fresh)[0]), (True, 502), "there is a new one")
    equal(fetch(s, s.url.replace(s.box, signed)), 502, "signed URLs go on")
    restart(s)
    equal((s.get("/health", token=s.token)[0], s.get("/health", token=fresh)[0]), (401, 502), "the same after the server was killed")
    s.client.ask("DELETE", f"/api/sandbox/{s.box}")
    equal((s.get("/health", token=fresh)[0], fetch(s, s.url.replace(s.box, signed))), (401, 401), "deleted: they are gone")


def tokens_of_a_scene():
    with Work() as work:
        s = Scene(work)
        for part in (a_token_opens_its_port, a_token_of_the_toolbox_opens_sockets, a_page_gets_a_cookie,
                     tokens_outlive_the_server, tokens_end_with_a_stop):
            try:
                part(s)
            except Exception as error:  # noqa: BLE001 the others go on
                ok(False, part.__name__, repr(error))


def tokens_expire():
    with Work() as work:
        s = Scene(work, "--preview-token-life", "2s")
        ok(until(lambda: s.get("/health")[0] == 401, 30), "a token ends with its life")
        again = link_of(s, 3000)["token"]
        ok(again != s.token and s.get("/health", token=again)[0] == 200, "then another one is given")


def an_option_makes_tokens_keys():
    with Work() as work:
        s = Scene(work, "--preview-token-is-key")
        equal([s.get("/interim", port=3001, token=s.token)[0], toolbox(s, s.token), toolbox(s, s.token, "GET", "/files?path=."),
               s.get("/work-dir", port=2280, token=s.token)[0]], [200] * 4, "with --preview-token-is-key one opens everything of its sandbox")
        other = s.client.ask("POST", "/api/sandbox", {"name": "other"}).json["id"]
        equal(s.get("/health", token=link_of(s, 3000, other)["token"])[0], 401, "of no other one")


if __name__ == "__main__":
    main([tokens_of_a_scene, tokens_expire, an_option_makes_tokens_keys])
