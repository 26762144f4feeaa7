#!/usr/bin/env python3
"""tests/hosts/make.py MACHINE [--build DIR] [--] COMMAND…

Runs a command, as root, on a machine of the table in machines.py: mounts, namespaces, filters and limits make this one look
like it. What was made is gone when the command is.
"""
import ctypes
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import filter as rules  # noqa: E402
import machines  # noqa: E402

USER = 4711  # an ordinary one that nobody else is
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 4096, 8192, 16384, 1 << 18, 2
CAP_LAST = 40
# What `docker run` leaves root: chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw
# sys_chroot mknod audit_write setfcap
CONTAINER_CAPS = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
LIBC = rules.LIBC


def call(name, *args):
    return rules.check(getattr(LIBC, name)(*args), f"{name}{args}")


def mount(source, target, kind=None, flags=0, data=None):
    def raw(text):
        return text.encode() if text is not None else None
    call("mount", raw(source), raw(str(target)), raw(kind), flags, raw(data))


def read_only(path):
    mount(path, path, flags=MS_BIND)
    mount(None, path, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def fork_into_pid_namespace():
    """A PID namespace has its own process 1; who made it waits and ends alike."""
    call("unshare", CLONE_NEWPID)
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    call("prctl", 1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG: nothing outlives the test
    mount("proc", "/proc", "proc")


# ---- steps: each takes the place that was made for it, a directory of its own ----

def on_overlay(place):
    """Everything on overlayfs, as in a container."""
    mount("t", place, "tmpfs")
    for name in ("upper", "work", "root"):
        (place / name).mkdir()
    root = place / "root"
    mount("overlay", root, "overlay", 0, f"lowerdir=/,upperdir={place}/upper,workdir={place}/work")
    for name in ("dev", "sys"):
        mount("/" + name, root / name, flags=MS_BIND | MS_REC)
    mount("proc", root / "proc", "proc")
    mount("t", root / "dev/shm", "tmpfs", 0, "mode=1777")
    (root / "old").mkdir()
    os.chdir(root)
    rules.check(LIBC.syscall(rules.numbers()["pivot_root"], b".", b"old"), "pivot_root")
    os.chdir("/")
    call("umount2", b"/old", MNT_DETACH)
    os.rmdir("/old")


def mask_proc(place):
    for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"):
        if os.path.exists("/proc/" + name):
            read_only("/proc/" + name)
    for name in ("kcore", "keys", "timer_list"):
        if os.path.exists("/proc/" + name):
            mount("/dev/null", "/proc/" + name, flags=MS_BIND)


def container_mounts(place):
    mount("t", "/sys/fs/cgroup", "tmpfs", MS_RDONLY, "mode=755")


def fake_sysctl(name, value):
    def step(place):
        """/proc/sys/kernel with one more file: ours has none of a distribution's own."""
        where = place / "kernel"
        where.mkdir()
        mount("t", where, "tmpfs", 0, "mode=755")
        for known in ("core_pattern", "ns_last_pid", "pid_max", "osrelease", "overflowuid", "overflowgid", "cap_last_cap"):
            source = pathlib.Path("/proc/sys/kernel", known)
            if source.exists():
                (where / known).write_text(source.read_text())
        (where / name).write_text(value + "\n")
        mount(str(where), "/proc/sys/kernel", flags=MS_MOVE)
    return step


def private_clone(place):
    """The programs in a directory that only root may pass."""
    home = place / "home"
    home.mkdir(mode=0o700)
    (home / "build").mkdir()
    mount(os.environ["CAISSON_LIBEXEC"], home / "build", flags=MS_BIND | MS_REC)
    os.environ["CAISSON_LIBEXEC"] = str(home / "build")
    os.environ.update({"HOME": str(home), "TMPDIR": str(home), "CAISSON_STATE": str(home / "state")})


def full_disk(place):
    state = place / "state"
    state.mkdir()
    mount("t", state, "tmpfs", 0, "size=64k,mode=1777")
    (state / "caisson").mkdir(mode=0o700)
    os.chown(state / "caisson", USER, USER)
    with open(state / "caisson" / "full", "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass
    os.environ["CAISSON_STATE"] = str(state / "caisson")


def no_home(place):
    for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CAISSON_STATE"):
        os.environ.pop(name, None)


def limit(what, number):
    def step(place):
        resource.setrlimit(what, (number, number))
    return step


# ---- namespaces of users ----

def in_userns(id_map, flags, then):
    """This process goes on as uid 0 of a new user namespace; `then` runs there."""
    ready, go = os.pipe(), os.pipe()
    helper = os.fork()
    if helper == 0:  # outside, where a map of more than one id may be written
        os.close(ready[1])
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{os.getppid()}/{name}").write_text(id_map)
        os.write(go[1], b"x")
        os._exit(0)
    call("unshare", CLONE_NEWUSER | flags)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.waitpid(helper, 0)
    for fd in (*ready, *go):
        os.close(fd)
    os.setresgid(0, 0, 0)
    os.setgroups([])
    os.setresuid(0, 0, 0)
    then()


def container_userns(place):
    """The root of an unprivileged container: its ids are 65536 of the machine's, none of them root's."""
    in_userns("0 100000 65536", CLONE_NEWNS, fork_into_pid_namespace)


def unshare_r(place):
    in_userns(f"0 {USER} 1", CLONE_NEWNS, lambda: None)


def namespace_limit(kind):
    def step(place):
        """Every user namespace has limits of its own, which hold for all that is made below it."""
        def inside():
            pathlib.Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")
        in_userns("0 0 65536", 0, inside)
    return step


def raise_limits(place):
    """Every limit on namespaces is 0, and then doctor's remedy is followed for each."""
    def inside():
        for kind in machines.KINDS:
            pathlib.Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")
        for kind in machines.KINDS:
            subprocess.run(["sysctl", "-q", "-w", f"user.max_{kind}_namespaces=10000"], check=True)
    in_userns("0 0 65536", 0, inside)


# ---- a job's cgroup ----

class Job:
    """Groups as a batch system makes them: less memory, processor time and processes than a sandbox asks for."""
    LIMITS = {"memory": {"memory.limit_in_bytes": "160M", "memory.max": "160M"},
              "pids": {"pids.max": "120"},
              "cpu": {"cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}}

    def __init__(self, name):
        top = pathlib.Path("/sys/fs/cgroup")
        self.is_v2 = (top / "cgroup.controllers").exists()
        self.groups = {}
        for controller in self.LIMITS:
            base = top if self.is_v2 else top / controller
            if (base / "cgroup.procs").exists():
                self.groups[controller] = base / name

    def enter(self):
        for controller, group in self.groups.items():
            group.mkdir(exist_ok=True)
            for file, value in self.LIMITS[controller].items():
                if (group / file).exists():
                    (group / file).write_text(value)
            (group / "cgroup.procs").write_text("0")

    def remove(self):
        """What keeps a group from being removed, or nothing: as the batch system would, at once and only once."""
        left = []
        for group in set(self.groups.values()):
            try:
                group.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                left += [f"{error}: {[str(p) for p in group.glob('*') if p.is_dir()]}"]
        return left


# ---- the user ----

def drop_caps(keep):
    for cap in range(CAP_LAST + 1):
        if cap not in keep:
            LIBC.prctl(24, cap, 0, 0, 0)  # PR_CAPBSET_DROP
    bits = sum(1 << cap for cap in keep)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    rules.check(LIBC.syscall(rules.numbers()["capset"], head, data), "capset")


def become(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def home_for(place, uid):
    home = place / "user"
    home.mkdir(mode=0o711)  # the server's other half may pass; what it is without that is another machine
    os.chown(home, uid, uid)
    os.environ.update({"HOME": str(home), "TMPDIR": str(home), "XDG_RUNTIME_DIR": str(home)})
    os.environ["CAISSON_STATE"] = str(home / "state")
    return home


STEPS = {
    "overlay": on_overlay, "masked proc": mask_proc, "container mounts": container_mounts,
    "apparmor sysctl": fake_sysctl("apparmor_restrict_unprivileged_userns", "1"),
    "userns sysctl": fake_sysctl("unprivileged_userns_clone", "0"),
    "private clone": private_clone, "full disk": full_disk, "no home": no_home,
    "container userns": container_userns, "unshare -r": unshare_r,
    "raised limits": raise_limits,
    "64 files": limit(resource.RLIMIT_NOFILE, 64), "small files": limit(resource.RLIMIT_FSIZE, 100 * 1024),
    **{f"no {kind} namespaces": namespace_limit(kind) for kind in machines.KINDS},
}


def filter_of(row):
    made = rules.Filter()
    if "container" in row.filters:
        made.container()
    if "apparmor" in row.filters:
        for name in ("mount", "umount2", "fsopen", "fsmount", "move_mount", "pivot_root", "sethostname", "chroot"):
            made.deny(name, "EPERM")
        made.deny_bits("open_tree", 2, 1, "EPERM")  # a clone; to open one needs no right
    if "userns" in row.filters:
        made.deny_bits("clone", 0, CLONE_NEWUSER, "EPERM").deny("clone3", "ENOSYS")
        made.deny_bits("unshare", 0, CLONE_NEWUSER, "EPERM")
    for name in row.missing:
        made.deny(name, "ENOSYS")
    if row.landlock == 0:
        made.deny("landlock_create_ruleset", "EOPNOTSUPP")
    elif row.landlock:
        made.ask("landlock_create_ruleset", 2, 1)
    return made


def execute(command):
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        os._exit(127)


def run_listened(row, made, command, prepare):
    """Under a filter whose questions this process answers."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        fd = rules.install(made, listener=True)
        rules.send_listener(theirs, fd)
        theirs.recv(1)
        ours.close()
        theirs.close()
        prepare()
        execute(command)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    ours.send(b"y")
    if os.fork() == 0:
        rules.answer_all(fds[0], row.landlock)
        os._exit(0)
    os.close(fds[0])
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)


def enter(row, place, command):
    """Turns this process into the command on that machine; does not return."""
    uid = USER if row.user == "user" else 0
    call("unshare", CLONE_NEWNS)
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    mount("t", "/dev/shm", "tmpfs", 0, "mode=1777")  # where sandboxes in memory are noted: gone with the machine
    os.chmod(place, 0o755)
    if row.job:
        Job(row.job).enter()
    if row.has_pid_namespace:
        fork_into_pid_namespace()
    for step in [s for s in row.steps if s in ("overlay", "masked proc", "container mounts")]:
        STEPS[step](place)
    owner = {"container userns": 100000 + uid, "unshare -r": USER}
    home_for(place, next((owner[s] for s in row.steps if s in owner), uid))
    for step in [s for s in row.steps if s not in ("overlay", "masked proc", "container mounts")]:
        STEPS[step](place)
    os.environ.update(row.environment)
    os.chdir("/")

    def prepare():
        if row.caps is not None and uid == 0:
            drop_caps(CONTAINER_CAPS)
        if uid:
            become(uid)
    made = filter_of(row)
    if row.landlock:
        run_listened(row, made, command, prepare)
    if row.caps is not None and uid == 0:
        prepare()
        call("prctl", rules.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if made.rules:
            rules.install(made)
    else:
        if made.rules:
            rules.install(made)
        prepare()
    execute(command)


def run_on(row, command, **kept):
    """A child that enters it: subprocess.Popen's arguments in `kept`."""
    with tempfile.TemporaryDirectory(prefix="csn-hosts-", dir="/var/tmp") as place:
        return subprocess.run([sys.executable, __file__, "--place", place, row.name, "--", *command], check=False, **kept)


def main():
    args = sys.argv[1:]
    place = None
    if args[:1] == ["--place"]:
        place, args = args[1], args[2:]
    name, args = args[0], args[1:]
    if args[:1] == ["--"]:
        args = args[1:]
    if place is None:
        sys.exit(run_on(machines.find(name), args or ["bash"]).returncode)
    enter(machines.find(name), pathlib.Path(place), args)


if __name__ == "__main__":
    main()
