"""What a program must leave as it was on a machine: taken before, compared after.

Used in two places: tests/host/unharmed.py compares after every verb, tests/run compares the real machine at the end of a
whole check.
"""
import os
import pathlib
import re
import subprocess
import time

# Kernel settings that count or time something: they change by themselves.
COUNTERS = re.compile(
    r"kernel/(random/|ns_last_pid|pty/nr|threads-max)|fs/(file-nr|inode-|dentry-state|aio-nr|quota|inode-nr)|"
    r"net/netfilter/nf_conntrack_count|debug/|vm/(stat_refresh|compact_memory)|kernel/sched_domain/|"
    r"net/ipv./route/flush|kernel/perf_cpu_time|kernel/perf_event_max_sample_rate|kernel/spl|sunrpc/")
# Mounts that come and go by themselves while people work: logins, removable media, automounts.
LOOSE_MOUNT = re.compile(r"/run/user/|/run/media/|/media/|/run/credentials|/proc/sys/fs/binfmt_misc$")
OURS = re.compile(r"^/(dev|proc|sys|run)(/|$)|^/$")
# Units that end by themselves: logins, and services that start on demand and leave when idle.
LOOSE_UNIT = re.compile(
    r"session-|user@|user-runtime-dir@|user-|run-|\.scope|systemd-(hostnamed|timedated|localed|tmpfiles|userdbd)|apt-|fwupd|"
    r"packagekit|dpkg|man-db|logrotate|phpsession|polkit|udisks|colord|getty|fstrim|e2scrub|\.timer|\.device|\.automount")


def mounts(process="self"):
    """{mount id: (root, place, type, source, options)}; a place that is mounted anew has another id."""
    found = {}
    for line in pathlib.Path(f"/proc/{process}/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        fields, rest = fields.split(), rest.split()
        found[fields[0]] = (fields[3], fields[4], rest[0], rest[1], fields[5] + " " + " ".join(fields[6:]))
    return found


def cgroup_roots():
    return [place for _, place, kind, _, _ in mounts().values() if kind in ("cgroup", "cgroup2")]


def cgroups():
    """Every group, with the controllers switched on for its children."""
    found = {}
    for root in cgroup_roots():
        for where, _, names in os.walk(root):
            value = ""
            if "cgroup.subtree_control" in names:
                try:
                    value = pathlib.Path(where, "cgroup.subtree_control").read_text().strip()
                except OSError:
                    continue # removed meanwhile
            found[where] = value
    return found


def our_cgroups():
    """Those that we are in, up to the top, and whatever is called after us: others' groups come and go by themselves."""
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    own = {line.split(":", 2)[2].rstrip("/") + "/" for line in lines}
    roots = sorted(cgroup_roots(), key=len, reverse=True)
    found = {}
    for where, value in cgroups().items():
        root = next(root for root in roots if where == root or where.startswith(root + "/"))
        below = where[len(root):] + "/"
        if "caisson" in below or any(path.startswith(below) for path in own):
            found[where] = value
    return found


def sysctls():
    found = {}
    for where, _, names in os.walk("/proc/sys"):
        for name in names:
            path = os.path.join(where, name)
            if COUNTERS.search(path[len("/proc/sys/"):]):
                continue
            try:
                if os.stat(path).st_mode & 0o444:
                    with open(path, "rb") as file:
                        found[path] = file.read(4096)
            except OSError:
                pass
    return found


def links():
    """Network links, addresses, routes and rules of this network namespace."""
    shown = {name: "" for name in os.listdir("/proc/self/net/dev_snmp6")} if os.path.isdir("/proc/self/net/dev_snmp6") else {}
    for command in (["ip", "-o", "link"], ["ip", "-o", "addr"], ["ip", "route", "show", "table", "all"], ["ip", "rule"]):
        try:
            text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            continue
        for line in text.splitlines():
            line = re.sub(r"\b(valid_lft|preferred_lft|expires|state) \S+", "", line)
            shown[" ".join(command) + ": " + line] = ""
    return shown


def shared_memory():
    """/dev/shm, POSIX queues and System V objects."""
    found = {}
    for place in ("/dev/shm", "/dev/mqueue"):
        if os.path.isdir(place):
            # tests/run's own, of this check and of another one beside it, which may begin or end meanwhile
            found.update({f"{place}/{name}": "" for name in os.listdir(place) if not re.fullmatch(r"csn-[a-z0-9_]{8}", name)})
    for kind in ("shm", "sem", "msg"):
        path = pathlib.Path("/proc/sysvipc", kind)
        if path.exists():
            for line in path.read_text().splitlines()[1:]:
                found[f"{path}: key {line.split()[0]} id {line.split()[1]}"] = ""
    return found


def leftovers():
    """Files where programs leave things that belong to nobody: temporary and runtime directories."""
    found = {}
    for place in {"/tmp", "/var/tmp", "/run", "/run/user", os.environ.get("TMPDIR", "/tmp")}:
        if os.path.isdir(place):
            found.update({f"{place}/{name}": "" for name in os.listdir(place) if re.search("caisson|slirp", name)})
    for place in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found[f"{place.parent.parent.name}: {place.read_text().strip()}"] = ""
        except OSError:
            pass
    return found


def descendants(of):
    """Live processes below `of`, which is a subreaper: whoever lost its parent is here too."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            head, _, tail = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")
        except OSError:
            continue
        state, parent = tail.split()[:2]
        if state not in "ZX":
            parents[int(entry)], names[int(entry)] = int(parent), head.partition("(")[2]
    found, level = {}, {of}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found.update({f"process {pid}: {names[pid]}": "" for pid in level})
    return found


PARTS = {"mounts": mounts, "cgroups": our_cgroups, "all cgroups": cgroups, "sysctls": sysctls, "links": links, "shared memory": shared_memory,
         "leftovers": leftovers, "processes": lambda: descendants(os.getpid())}


class Snapshot:
    def __init__(self, parts=None):
        self.parts = {name: PARTS[name]() for name in parts or PARTS if parts or name != "all cgroups"}

    def changes(self, later):
        """Lines that say what is gone, new or different."""
        for name, before in self.parts.items():
            after = later.parts[name]
            for key in sorted(before.keys() - after.keys()):
                yield f"{name}: gone: {key} {before[key]}"
            for key in sorted(after.keys() - before.keys()):
                yield f"{name}: new: {key} {after[key]}"
            for key in sorted(before.keys() & after.keys()):
                if before[key] != after[key]:
                    yield f"{name}: changed: {key}: {before[key]!r} is now {after[key]!r}"


def holds_others(line):
    """A group with a process in it that doesn't descend from us: somebody else's sandbox, which may come or go meanwhile."""
    found = re.match(r"cgroups: new: (\S+)", line)
    if not found:
        return False
    ours = {int(text.split()[1].rstrip(":")) for text in descendants(os.getpid())} | {os.getpid()}
    for where, _, _ in os.walk(found.group(1)):
        try:
            if any(int(pid) not in ours for pid in pathlib.Path(where, "cgroup.procs").read_text().split()):
                return True
        except OSError:
            pass # removed meanwhile
    return False


# A group of another sandbox that was there before has ended with it.
BOX_GONE = re.compile(r"cgroups: gone: \S*/[0-9a-f]{32}(/\S*)? ")


def settle(before, seconds=10, ignore=None):
    """What differs from `before` once everything that is on its way out has left: at every look since the first. Others may use
    the machine meanwhile; what they have comes and goes, or is known as theirs."""
    end, found = time.monotonic() + seconds, None
    while True:
        now = [line for line in before.changes(Snapshot(before.parts)) if not (ignore and ignore.search(line)) and
               not BOX_GONE.match(line) and not holds_others(line)]
        found = [line for line in now if found is None or line in found]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


# ---- the real machine, over a whole check ----

def lasting_mounts():
    return {key: value[1] for key, value in mounts().items() if OURS.search(value[1]) and not LOOSE_MOUNT.search(value[1])}


def covering_mounts():
    """Mounts over places that everybody uses."""
    return {key: value[1] for key, value in mounts().items() if value[1] in ("/", "/tmp", "/var/tmp", "/home", "/root", "/etc") or
            re.match(r"/(dev|proc|sys)(/|$)", value[1]) and not LOOSE_MOUNT.search(value[1])}


def units():
    """Active units of a systemd that runs here, else none."""
    if not os.path.isdir("/run/systemd/system"):
        return set()
    shown = subprocess.run(["systemctl", "list-units", "--plain", "--no-legend", "--state=active", "--no-pager"],
                           capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in shown.splitlines()]
    return {row[0] for row in rows if len(row) > 3 and row[3] in ("running", "mounted", "listening", "active") and
            not LOOSE_UNIT.search(row[0])}


class Lasting:
    """The machine's own mounts and units: none may be gone or covered when a check has ended."""

    def __init__(self):
        self.mounts, self.covers, self.units = lasting_mounts(), covering_mounts(), units()

    def harm(self):
        for _, place in sorted(self.mounts.items() - lasting_mounts().items()): # ids are used again: compared with the place
            yield f"the mount at {place} is gone"
        for _, place in sorted(covering_mounts().items() - self.covers.items()):
            yield f"something was mounted at {place}"
        for unit in sorted(self.units - units()):
            yield f"the systemd unit {unit} is not active any more"


# ---- what a check itself left ----

def empty_box_groups():
    """Groups named after a sandbox without a process in them."""
    found = set()
    for root in cgroup_roots():
        for where, _, _ in os.walk(root):
            if re.fullmatch("[0-9a-f]{32}", os.path.basename(where)):
                try:
                    if not pathlib.Path(where, "cgroup.procs").read_text().strip():
                        found.add(where)
                except OSError:
                    pass
    return found


def has_others():
    """Somebody else has sandboxes or a server on this machine."""
    ours = set(descendants(os.getpid()))
    return any(": caisson-" in process for process in descendants(0) if process not in ours)


class Traces:
    """What may not be left of everything that we start: processes, groups, and anything in these directories, which are ours. A group
    says nothing of who made it: it counts while nobody else has sandboxes."""

    def __init__(self, *directories):
        self.directories, self.groups, self.had_others = directories, empty_box_groups(), has_others()

    def now(self):
        found = set(descendants(os.getpid()))
        for place in self.directories:
            if os.path.isdir(place):
                found |= {f"{os.path.join(place, name)}" for name in os.listdir(place)}
        self.had_others = self.had_others or has_others()
        return found | {f"cgroup {group}" for group in (() if self.had_others else empty_box_groups() - self.groups)}

    def left(self, seconds=10):
        """What is there at every look for that long: sandboxes and their groups end in the kernel's own time."""
        end, found = time.monotonic() + seconds, self.now()
        while found and time.monotonic() < end:
            time.sleep(0.2)
            found &= self.now()
        return sorted(found)
