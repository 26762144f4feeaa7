#!/usr/bin/env python3
"""A server that is out of descriptors says so and lives: what nobody uses gives its own back, the rest is refused with 503."""
import os
import resource

from lib import Server, Work, equal, has, main, ok, until

LIMIT = 96
BOX = {"cpu": 1, "memory": 1, "disk": 1, "autoStopInterval": 0,
       "buildInfo": {"dockerfileContent": "FROM host\n"}}


def small_server(work, limit=LIMIT):
    server = Server(work, "--warm", "0")
    server.prepare = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))
    return server.start()


def test_idle_sandboxes_need_none():
    with Work() as work:
        server = small_server(work, 64)
        has(server.logged(), "msg=descriptors limit=64 sandboxes_in_use_at_once=", "the start says how far they reach")
        client, boxes = server.client(), []
        for _ in range(60):
            made = client.ask("POST", "/api/sandbox", BOX)
            if made.status != 200 or client.execute(made.json["id"], "true").status != 200:
                ok(False, "one more sandbox", made, server.logged())
                break
            boxes.append(made.json["id"])
        equal(len(boxes), 60, "60 sandboxes at a limit of 64 descriptors")
        equal(client.execute(boxes[0], "echo here").json["result"], "here\n", "the first one is reached again")
        equal(server.stop(), 0, "it ends well")


def test_what_is_too_much_is_refused_and_nothing_dies():
    with Work() as work:
        server = small_server(work)
        front, client, boxes, refused = server.front(), server.client(), [], None
        while refused is None and len(boxes) < LIMIT:
            made = client.ask("POST", "/api/sandbox", BOX)
            if made.status == 200:
                boxes.append(made.json["id"])
                made = client.ask("POST", f"/toolbox/{boxes[-1]}/process/session", {"sessionId": "s"})
            if made.status >= 300:
                refused = made
        equal(refused and refused.status, 503, "with sessions in all of them the next one is refused")
        has(refused.json["message"], "no descriptors left", "with the reason")
        has(server.logged(), "out of descriptors", "which the log has, too")
        has(server.logged(), "LimitNOFILE=", "with the remedy")
        equal(client.ask("GET", "/api/health").status, 200, "the server lives")
        equal((server.front(), os.path.exists(f"/proc/{front}")), (front, True), "it is the same process")
        equal([client.ask("DELETE", f"/api/sandbox/{box}").status for box in boxes], [200] * len(boxes),
              "all can be deleted")
        ok(until(lambda: client.ask("POST", "/api/sandbox", BOX).status == 200), "then there is room again")
        equal(server.stop(), 0, "it ends well")


if __name__ == "__main__":
    main([test_idle_sandboxes_need_none, test_what_is_too_much_is_refused_and_nothing_dies])
