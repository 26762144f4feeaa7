"""The table of machines: how each is made here, what works on it, and what is said where something doesn't.

tests/hosts/run_hosts.py holds the program to it; tools/make-machines writes docs/machines.md from it. Nothing else says what
works where."""
import dataclasses

KINDS = ("user", "pid", "net", "mnt", "ipc", "uts", "cgroup", "time")
ALL = ("doctor", "run_file", "run_sh", "arena", "interp", "blocks", "box", "volume", "serve")
FEW = ("doctor", "run_sh", "arena", "interp", "blocks", "box", "serve")
LEAST = ("doctor", "run_sh", "serve")
MAKERS = ("doctor", "run_sh", "candidate", "arena", "interp", "rlm", "smoke", "blocks", "box", "volume", "serve")
WITHOUT_LANDLOCK = "--optional landlock,keeper"

OPEN_CONTAINER = ("start the container as a user, without its filter and with all of /proc (below), or with `--privileged`")


@dataclasses.dataclass(frozen=True)
class Machine:
    name: str
    title: str                # for docs/machines.md
    user: str = "user"        # or "root"
    steps: tuple = ()         # of make.py
    filters: tuple = ()       # of make.py
    missing: tuple = ()       # system calls it doesn't have
    landlock: int | None = None  # the version of Landlock's interface, 0: none
    caps: str | None = None   # "container": what `docker run` leaves
    has_pid_namespace: bool = False
    job: str = ""             # a cgroup of somebody else's around it
    environment: dict = dataclasses.field(default_factory=dict)
    options: str = ""         # for every verb that makes sandboxes
    verbs: tuple = ALL        # which are tried
    cause: str = ""           # a regular expression: no verb works, and doctor, verbs and serve name this
    refuses: dict = dataclasses.field(default_factory=dict)  # verb: cause, where only some don't
    remedy: str = "caisson doctor"  # what a verb that fails says to try
    receipt: str = ""         # a regular expression that a receipt has
    seen: str = ""            # a regular expression that doctor prints although all works
    note: str = ""            # for docs/machines.md: what to do, or what is different


def refusing(name, title, cause, note, **more):
    return Machine(name, title, cause=cause, note=note, **{"verbs": FEW, **more})


FILTERED = r"a system call filter \(seccomp\) is over this process"
CONTAINER = {"has_pid_namespace": True, "steps": ("overlay", "container mounts", "masked proc"), "caps": "container",
             "filters": ("container",)}

MACHINES = [
    Machine("plain-root", "a machine of your own, root", user="root"),
    Machine("plain-user", "a machine of your own, user"),

    Machine("docker-privileged-root", "`docker run --privileged`, root", user="root", has_pid_namespace=True,
            steps=("overlay",), note="the state directory may be on overlayfs"),
    Machine("docker-privileged-user", "`docker run --privileged`, user", has_pid_namespace=True, steps=("overlay",),
            refuses={"box": "overlay.*CAISSON_STATE", "serve": "overlay.*CAISSON_STATE"},
            note="sandboxes that stay (`create`, `serve`) need `CAISSON_STATE` on a volume or a tmpfs"),
    refusing("docker-root", "`docker run`, root", FILTERED, OPEN_CONTAINER, user="root", **CONTAINER),
    refusing("docker-user", "`docker run --user 1000`", FILTERED, OPEN_CONTAINER, verbs=LEAST, **CONTAINER),
    Machine("docker-open-root", "`docker run` without filter and masks, root", user="root", has_pid_namespace=True,
            steps=("container mounts",), caps="container", note="takes the ordinary user's way by itself"),
    Machine("docker-open-user", "`docker run --user 1000` without filter and masks", has_pid_namespace=True,
            steps=("container mounts",), caps="container"),
    refusing("kubernetes-masked", "a pod without a filter, /proc masked, user", r"'/proc/\S+' is mounted over",
             "`procMount: Unmasked` in the container's `securityContext`", has_pid_namespace=True, verbs=LEAST,
             steps=("container mounts", "masked proc"), caps="container"),

    Machine("lxc-root", "LXC, Incus, Proxmox, rootless podman: root of the container", user="root",
            steps=("container userns",), note="takes the ordinary user's way by itself"),
    Machine("lxc-user", "the same, user", steps=("container userns",)),
    Machine("unshare-r", "`unshare -r`", user="root", steps=("unshare -r",), note="takes the ordinary user's way by itself"),

    refusing("ubuntu", "Ubuntu 24.04 and newer, user",
             r"AppArmor takes the rights in it away \(kernel\.apparmor_restrict_unprivileged_userns is 1\)",
             "`sudo apparmor_parser -r /etc/apparmor.d/caisson` after `meson install`, or "
             "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
             steps=("apparmor sysctl",), filters=("apparmor",)),
    refusing("userns-clone", "Debian's kernel.unprivileged_userns_clone=0, user", r"kernel\.unprivileged_userns_clone is 0",
             "`sudo sysctl -w kernel.unprivileged_userns_clone=1`", steps=("userns sysctl",), filters=("userns",), verbs=LEAST),
    *[refusing(f"no-{kind}-namespaces", f"`user.max_{kind}_namespaces=0`, user", rf"user\.max_{kind}_namespaces is 0",
               f"`sudo sysctl -w user.max_{kind}_namespaces=10000`", steps=(f"no {kind} namespaces",),
               verbs=FEW if kind == "net" else LEAST) for kind in KINDS],

    Machine("raised-limits", "all of these, after these commands", steps=("raised limits",), verbs=("doctor", "run_sh", "box")),

    refusing("landlock-0", "no Landlock (WSL2, lsm= without it), user", "landlock.*--optional landlock,keeper",
             f"`{WITHOUT_LANDLOCK}` in every verb", landlock=0, verbs=MAKERS),
    Machine("landlock-0-optional", f"the same, with `{WITHOUT_LANDLOCK}`", landlock=0, options=WITHOUT_LANDLOCK,
            verbs=MAKERS, receipt="without landlock, keeper",
            refuses={"doctor": "--optional landlock,keeper"}, note="doctor still says what is missing"),
    *[Machine(f"landlock-{abi}", f"Landlock ABI {abi} ({linux})", landlock=abi, seen=rf"✓ landlock +ABI {abi}{more}",
              receipt=r"all walls \(landlock without scopes\)" if abi < 6 else "all walls ·",
              verbs=("doctor", "run_file", "run_sh", "box", "serve") if abi == 2 else ("doctor", "run_sh"),
              note=note) for abi, linux, more, note in (
                  (1, "Linux 5.13", ", no second wall", "no second wall for signals and abstract sockets"),
                  (2, "Linux 5.19; Debian 12", ", no second wall", "no second wall for signals and abstract sockets"),
                  (4, "Linux 6.7; Ubuntu 24.04", ", no second wall", "no second wall for signals and abstract sockets"),
                  (7, "Linux 6.15", "$", ""))],

    refusing("no-openat2", "Linux before 5.6, or a filter without openat2", "the call openat2 is refused",
             "a newer kernel, or a filter that knows the call", missing=("openat2",), verbs=LEAST),
    refusing("no-execveat", "a filter without execveat", "the call execveat is refused", "a filter that knows the call",
             missing=("execveat",), verbs=LEAST),
    Machine("no-close-range", "Linux before 5.9, or a filter without close_range", missing=("close_range",),
            verbs=("doctor", "run_file", "box", "serve")),
    Machine("no-pidfd-send-signal", "a filter without pidfd_send_signal", missing=("pidfd_send_signal",),
            seen=r"✗ signals by descriptor +Function not implemented", verbs=("doctor", "run_file", "box", "serve")),

    Machine("private-clone", "a clone in root's home, mode 0700, root", user="root", steps=("private clone",)),
    Machine("no-home", "no HOME (cron, services), user", steps=("no home",), cause="CAISSON_STATE",
            verbs=("doctor", "run_sh"), note="`CAISSON_STATE=/a/directory/of/mine`"),
    Machine("full-disk", "the state directory's disk is full, user", steps=("full disk",),
            cause=r"'\S+/state/caisson\S*'.*No space left on device|No space left on device.*'\S+/state/caisson",
            verbs=("doctor", "run_sh", "box"), note="free space there, or another `CAISSON_STATE`"),
    Machine("ulimit-n", "`ulimit -n 64`, user", steps=("64 files",),
            verbs=("doctor", "run_file", "arena", "interp", "blocks", "box")),
    Machine("ulimit-f", "`ulimit -f 100`, user", steps=("small files",), verbs=("run_sh",), cause="File too large",
            remedy="ulimit -f unlimited", note="`ulimit -f unlimited`"),

    Machine("job-root", "a batch job's cgroup: 160 MiB, half a processor, 120 processes; root", user="root", job="csn-hosts-job-root",
            verbs=("doctor", "run_file", "arena", "box"), note="the job's limits hold, and its groups can be removed"),
    Machine("job-user", "the same, user", job="csn-hosts-job-user", verbs=("doctor", "run_file", "arena", "box"),
            note="the job's limits hold, and its groups can be removed"),
]


def find(name):
    found = [row for row in MACHINES if row.name == name]
    if not found:
        raise SystemExit(f"no machine '{name}': " + " ".join(row.name for row in MACHINES))
    return found[0]
