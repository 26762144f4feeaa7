#!/usr/bin/env python3
"""Nobody is promised more than the machine has: one sandbox, all of them, an organisation."""
import os

from lib import Server, Work, equal, has, main, ok, run

GIB = 1 << 30
HOST = {"buildInfo": {"dockerfileContent": "FROM host\n"}, "autoStopInterval": 0}
CORES = len(os.sched_getaffinity(0))


def total_gib():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(open(name, encoding="ascii").read()))
        except (OSError, ValueError):
            pass
    return total / GIB


def create(client, **asked):
    return client.ask("POST", "/api/sandbox", {**HOST, **asked})


def org(server, *words):
    status, out, err = run("org", *words, "--state", str(server.state))
    ok(status == 0, f"caisson org {' '.join(words)}", err)
    return out


def key_of(server, name):
    return run("key", "create", name, "--org", name, "--state", str(server.state))[1].strip()


def test_one_sandbox_gets_what_the_machine_has():
    with Work() as work:
        server = Server(work, "--warm", "0").start()
        client = server.client()
        has(server.logged(), f"one sandbox gets at most\" cores={CORES} memory_mib=", "the start says what that is")
        made = create(client, cpu=512, memory=1, disk=1)
        equal((made.status, made.json.get("cpu")), (200, CORES), "more processors than there are: all of them")
        equal(made.headers["X-Caisson-Granted"], f"cpu {CORES} of 512", "which is told")
        equal(client.execute(made.json["id"], "echo works").json["result"], "works\n", "and it works")
        for what, number in (("memory", 1000), ("disk", 60000)):
            refused = create(client, **{"cpu": 1, what: number})
            equal(refused.status, 403, f"more {what} than there is is refused")
            has(refused.json["message"], f"{number}.00 GiB were asked for", "with what was asked for")
            has(refused.json["message"], "--clamp", "and the way out")
            equal(client.ask("POST", f"/api/sandbox/{made.json['id']}/resize", {what: number}).status, 403,
                  "a resize likewise")
        plain = create(client)
        equal((plain.status, plain.headers["X-Caisson-Granted"]), (200, None), "who asks for nothing is told nothing")
        if total_gib() > 9.5:
            made = client.ask("POST", "/api/sandbox", {"snapshot": "daytona-large", "autoStopInterval": 0})
            equal((made.status, made.json.get("memory")), (200, 8), "4 cores and 8 GiB of a stock snapshot go on working")
        numbers = client.ask("GET", "/metrics").data.decode()
        has(numbers, "caisson_memory_promised_bytes ", "/metrics knows what is promised")
        ok(f"caisson_memory_promised_bytes {0}\n" not in numbers, "which is something", numbers)
        most = client.ask("GET", "/api/organizations").json[0]
        equal(most["maxCpuPerSandbox"], CORES, "the organisation's own limits follow the machine")
        ok(0 < most["maxMemoryPerSandbox"] <= total_gib(), "in memory, too", most)


def test_with_clamp_it_gets_less_and_is_told():
    with Work() as work:
        server = Server(work, "--warm", "0", "--clamp").start()
        client = server.client()
        made = create(client, cpu=1, memory=1000, disk=60000)
        equal(made.status, 200, "more than there is is granted in part")
        ok(made.json["memory"] <= total_gib() and made.json["disk"] < 60000, "the answer has the numbers", made)
        has(made.headers["X-Caisson-Granted"], " of 1000 GiB, disk ", "and what was asked for")


def test_all_together_are_promised_so_much():
    with Work() as work:
        server = Server(work, "--warm", "0", "--overcommit", "1", "--max-memory", "unlimited").start()
        ours, other = server.client(), server.client(key_of(server, "other"))
        most = int(ours.ask("GET", "/api/organizations").json[0]["maxMemoryPerSandbox"])
        if most < 1:
            print("ok - # SKIP less than 2 GiB of memory")
            return
        made = create(ours, memory=most)
        equal(made.status, 200, "one takes all that can be promised")
        refused = create(other, memory=1)
        equal(refused.status, 503, "then another organisation waits")
        has(refused.json["message"], "promised to other sandboxes", "and hears why")
        equal(ours.ask("POST", f"/api/sandbox/{made.json['id']}/stop").status, 200, "one that stops")
        equal(create(other, memory=1).status, 200, "makes room")
        equal(ours.ask("POST", f"/api/sandbox/{made.json['id']}/start").status, 503, "and waits in turn")


def test_quotas_of_one_organisation():
    with Work() as work:
        server = Server(work, "--warm", "0").start()
        alice, bob = server.client(key_of(server, "alice")), server.client(key_of(server, "bob"))
        org(server, "set", "alice", "--max-sandboxes", "1", "--max-memory", "1g", "--max-cpu", "1.75", "--max-volumes", "1")
        equal(create(alice).status, 200, "the first is within the quota")
        refused = create(alice)
        equal(refused.status, 403, "the second is not, at once")
        has(refused.json["message"], "sandboxes limit exceeded: 1.00 of 1.00", "with the numbers")
        equal([create(bob).status for _ in range(2)], [200, 200], "others are not concerned")
        equal([alice.ask("POST", "/api/volumes", {"name": f"v{i}"}).status for i in range(2)], [200, 403], "volumes likewise")
        listed = org(server, "ls")
        has(listed, "--max-sandboxes 1 --max-cpu 1.75 --max-memory 1073741824 --max-volumes 1", "they are listed")
        has(org(server, "ls", "--json"), '"sandboxes": "1"', "as JSON, too")
        org(server, "set", "alice", "--max-sandboxes", "unlimited")
        has(create(alice).json["message"], "CPU limit exceeded", "what is left of them holds")
        org(server, "reset", "alice")
        equal(create(alice).status, 200, "without them the server's hold")
        status, _, err = run("org", "reset", "nobody-here", "--state", str(server.state))
        ok(status != 0, "an organisation that isn't there")
        has(err, "there is no organisation 'nobody-here'", "is named")
        equal(run("org", "set", "alice", "--state", str(server.state))[0], 2, "set wants a quota")


if __name__ == "__main__":
    main([test_one_sandbox_gets_what_the_machine_has, test_with_clamp_it_gets_less_and_is_told,
          test_all_together_are_promised_so_much, test_quotas_of_one_organisation])
