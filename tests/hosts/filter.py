"""System call filters for machines that refuse something: made by hand, because nothing of it is worth a library."""
import ctypes
import errno
import os
import pathlib
import re
import socket
import struct

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src/kern/seccomp_table.h"
ROW = re.compile(r'\{ "(\w+)", (-?\d+|NONE), (-?\d+|NONE),')
ARCHES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}

ALLOW, ERRNO, NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NEW_NAMESPACES = 0x7E020000 | 0x80
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22

# What `docker run` refuses a process without CAP_SYS_ADMIN (EPERM), written from what such a container answers.
CONTAINER = """acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick init_module
kexec_file_load kexec_load keyctl lookup_dcookie mbind mount mount_setattr move_mount move_pages open_by_handle_at open_tree
perf_event_open pivot_root quotactl reboot request_key setns settimeofday swapoff swapon umount2 unshare userfaultfd
vhangup""".split()


def numbers():
    column = ARCHES[os.uname().machine][1]
    found = {m.group(1): m.group(1 + column) for m in ROW.finditer(TABLE.read_text())}
    return {name: int(number) for name, number in found.items() if number != "NONE" and int(number) >= 0}


def op(code, k, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, k)


class Filter:
    def __init__(self):
        self.numbers = numbers()
        self.rules = []

    def deny(self, name, error):
        if name in self.numbers:  # another architecture may never have had it
            self.rules.append([op(EQUAL, self.numbers[name], 0, 1), op(RETURN, ERRNO | getattr(errno, error))])
        return self

    def deny_bits(self, name, argument, bits, error):
        self.rules.append([op(EQUAL, self.numbers[name], 0, 4), op(LOAD, 16 + 8 * argument), op(ANY_BIT, bits, 0, 1),
                           op(RETURN, ERRNO | getattr(errno, error)), op(LOAD, 0)])
        return self

    def ask(self, name, argument, value):
        self.rules.append([op(EQUAL, self.numbers[name], 0, 4), op(LOAD, 16 + 8 * argument), op(EQUAL, value, 0, 1),
                           op(RETURN, NOTIFY), op(LOAD, 0)])
        return self

    def container(self):
        for name in CONTAINER:
            self.deny(name, "EPERM")
        self.deny("clone3", "ENOSYS")
        return self.deny_bits("clone", 0, NEW_NAMESPACES & ~0x80, "EPERM")

    def program(self):
        arch = ARCHES[os.uname().machine][0]
        body = [op(LOAD, 4), op(EQUAL, arch, 1, 0), op(RETURN, ALLOW), op(LOAD, 0)]
        return b"".join(body + [part for rule in self.rules for part in rule] + [op(RETURN, ALLOW)])


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


LIBC = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def install(rules, listener=False):
    """For this process and all it starts; with `listener` the descriptor on which somebody answers."""
    code = rules.program()
    kept = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.cast(kept, ctypes.c_void_p))
    if listener:  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
        return check(LIBC.syscall(rules.numbers["seccomp"], 1, 8, ctypes.byref(program)), "seccomp")
    if os.geteuid() != 0:
        check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    return check(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")


def send_listener(to, fd):
    socket.send_fds(to, [b"x"], [fd])
    os.close(fd)


def answer_all(fd, value):
    """Answers every call that the filter asks about, until the last process under it is gone."""
    import fcntl
    import select
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        for _, events in poll.poll():
            if events & (select.POLLHUP | select.POLLERR):
                return
            request = bytearray(80)
            try:
                fcntl.ioctl(fd, 0xC0502100, request)  # SECCOMP_IOCTL_NOTIF_RECV
                asked = struct.unpack_from("Q", request)[0]
                fcntl.ioctl(fd, 0xC0182101, struct.pack("QqiI", asked, value, 0, 0))  # …_SEND
            except OSError:  # who asked was killed meanwhile
                pass
