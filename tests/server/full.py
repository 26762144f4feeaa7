#!/usr/bin/env python3
"""A full disk locks nobody out: what frees space works, what takes some is refused early, and readiness knows."""
import os
import pathlib
import subprocess
import sys

# The small file system is in a mount namespace of ours (and a user namespace, without root): nothing of it outlives us.
if os.environ.get("CSN_FULL") != str(os.getppid()):
    os.environ["CSN_FULL"] = str(os.getpid())
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode:
        print("1..0 # SKIP no mount namespace can be had here")
        sys.exit(0)
    sys.exit(subprocess.run([*unshare, sys.executable, *sys.argv], check=False).returncode)

from lib import Server, Work, equal, has, main, ok, run, until  # noqa: E402

SIZE_MIB = 64
BOX = {"cpu": 1, "memory": 1, "disk": 1, "autoStopInterval": 0,
       "buildInfo": {"dockerfileContent": "FROM host\n"}}


class SmallWork(Work):
    """Whose state is a file system of its own."""

    def __enter__(self):
        path = super().__enter__()
        (path / "state").mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=700", "none", path / "state"], check=True)
        return path

    def __exit__(self, *exc):
        (self.path / "state/filler").unlink(missing_ok=True)
        super().__exit__(*exc)

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.path / "state"], check=True)


def fill(server):
    """To the last byte, by somebody who is not asked."""
    path = server.state / "filler"
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
    return path


def key_of(server, org):
    status, out, err = run("key", "create", org, "--org", org, "--state", str(server.state))
    assert status == 0, err
    return out.strip()


def create(client, name):
    answer = client.ask("POST", "/api/sandbox", {**BOX, "name": name})
    assert answer.status == 200, answer
    return answer.json["id"]


def state_of(client, box):
    answer = client.ask("GET", f"/api/sandbox/{box}")
    return answer.json["state"] if answer.status == 200 else answer.status


def test_what_frees_space_works_on_a_full_disk():
    with SmallWork() as work:
        server = Server(work, "--warm", "0").start()
        ours, other = server.client(), server.client(key_of(server, "other"))
        boxes = [create(ours, f"b{i}") for i in range(3)]
        theirs = create(other, "theirs")
        volume = ours.ask("POST", "/api/volumes", {"name": "v"}).json["id"]
        equal(ours.ask("POST", f"/api/sandbox/{boxes[2]}/snapshot", {"name": "snap"}).status // 100, 2,
              "a snapshot is made while there is room")
        ok(until(lambda: ours.ask("GET", "/api/snapshots/snap").status == 200), "and is there")
        ours.execute(boxes[0], "head -c 200000000 /dev/zero > big")
        fill(server)

        answer = ours.ask("GET", "/api/health/ready")
        equal(answer.status, 503, "a full disk is not ready")
        equal(answer.json["status"], "disk full", "and says why")
        ok(answer.json["diskFreeBytes"] < answer.json["diskReserveBytes"], "with the numbers", answer)
        answer = ours.ask("POST", "/api/sandbox", BOX)
        equal(answer.status, 507, "a create is refused")
        has(answer.json["message"], "--disk-reserve", "with the option that says how early")
        equal(ours.ask("POST", "/api/volumes", {"name": "w"}).status, 507, "so is a volume")

        answer = ours.ask("POST", f"/api/sandbox/{boxes[1]}/stop")
        equal((answer.status, state_of(ours, boxes[1])), (200, "stopped"), "a stop works")
        answer = other.ask("DELETE", f"/api/sandbox/{theirs}")
        equal((answer.status, state_of(other, theirs)), (200, 404), "a delete of somebody else's works")
        equal(ours.ask("DELETE", "/api/snapshots/snap").status, 200, "so does that of a snapshot")
        equal(ours.ask("DELETE", f"/api/volumes/{volume}").status, 200, "and of a volume")
        fill(server)
        answer = ours.ask("DELETE", f"/api/sandbox/{boxes[2]}")
        equal((answer.status, state_of(ours, boxes[2])), (200, 404), "a delete works when what it freed is taken")
        fill(server)
        server.kill()
        fill(server)

        server = Server(work, "--warm", "0").start()
        ours.port = other.port = server.port
        ours.close(), other.close()
        equal(state_of(other, theirs), 404, "what was deleted stays so after a kill")
        equal(state_of(ours, boxes[2]), 404, "both")
        equal(state_of(ours, boxes[1]), "stopped", "what was stopped stays so")
        equal(ours.ask("GET", "/api/snapshots/snap").status, 404, "the snapshot is gone")
        equal(ours.ask("GET", f"/api/volumes/{volume}").status, 404, "the volume is gone")
        equal(ours.ask("DELETE", f"/api/sandbox/{boxes[0]}").status, 200, "a delete works after a start on a full disk")
        server.stop()
        fill(server)
        server = Server(work, "--warm", "0").start()
        ours.port = server.port
        ours.close()
        for box in boxes[:2]:
            equal(state_of(ours, box), 404 if box == boxes[0] else "stopped", "after a clean end, too")
        for box in boxes[1:2]:
            equal(ours.ask("DELETE", f"/api/sandbox/{box}").status, 200, "a delete works after a start on a full disk")
            equal(state_of(ours, box), 404, "and it is gone")
        (server.state / "filler").unlink()
        ok(until(lambda: ours.ask("GET", "/api/health/ready").status == 200), "with room it is ready again")
        equal(ours.ask("POST", "/api/sandbox", BOX).status, 200, "and creates")
        equal(server.stop(), 0, "it ends well")


def test_the_reserve_is_the_operators_choice():
    with SmallWork() as work:
        server = Server(work, "--warm", "0", "--disk-reserve", "40m").start()
        client = server.client()
        create(client, "one")
        (server.state / "filler").write_bytes(bytes(32 << 20))
        answer = client.ask("POST", "/api/sandbox", BOX)
        equal(answer.status, 507, "below --disk-reserve a create is refused")
        has(answer.json["message"], "40 MiB", "with that number")
        numbers = client.ask("GET", "/metrics").data.decode()
        has(numbers, "caisson_disk_free_bytes ", "/metrics has what is free")
        has(numbers, f"caisson_disk_reserve_bytes {40 << 20}\n", "and what is kept")
        server.stop()
        server = Server(work, "--warm", "0", "--disk-reserve", "0", port=server.port).start()
        client.close()
        equal(client.ask("POST", "/api/sandbox", BOX).status, 200, "with none there is room")
        equal(client.ask("GET", "/api/health/ready").status, 200, "and the server is ready")


if __name__ == "__main__":
    main([test_what_frees_space_works_on_a_full_disk, test_the_reserve_is_the_operators_choice])
