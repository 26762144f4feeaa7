#!/usr/bin/env bash
# shellcheck disable=SC2016 # the quoted text is for the shell inside
# Ordinary programs, unchanged, in the default profile (R40). TAP on stdout. What is run here is listed in
# docs/compat-programs.md; keep the two in step.
set -u
caisson=${CSN_BUILD:?}/caisson
source_dir=${CSN_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CAISSON_STATE=$work/state
n=0 failed=0

# ok NAME STATUS LOGFILE
ok() {
    n=$((n + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $n - $1"
    else
        failed=$((failed + 1))
        echo "not ok $n - $1"
        tail -n 25 "$3" | sed 's/^/# /'
    fi
}

skip() {
    n=$((n + 1))
    if [ "${CSN_MUST_RUN:-}" = 1 ]; then
        failed=$((failed + 1))
        echo "not ok $n - $1 # $2"
    else
        echo "ok $n - $1 # SKIP $2"
    fi
}

# try NAME [run options…] -- COMMAND…
try() {
    local name=$1
    shift
    "$caisson" run --timeout 300s "$@" >"$work/log" 2>&1 </dev/null
    ok "$name" $? "$work/log"
}

roomy=(--memory 2g --pids 1024 --disk 900m --cpu 2)

# --- CPython's own test suite -------------------------------------------------------------------------------------
# Left out by name: UDP-Lite (an odd protocol, refused), a file size limit that is none (ours is one), and a disk that has
# something on it (ours is fresh).
cpython=(test_os test_posix test_pathlib test_shutil test_tempfile test_mmap test_signal test_pty test_select test_epoll
    test_selectors test_json test_re test_zipfile test_tarfile test_fcntl test_time test_resource test_shelve test_ctypes
    test_struct test_hashlib test_locale test_glob test_stat test_pwd test_grp test_threading test_subprocess test_queue
    test_faulthandler test_socket test_thread test_fork1 test_wait4 test_pipes test_poll test_openpty
    test_unicode test_set test_dict test_decimal test_datetime test_csv test_bz2 test_gzip test_lzma test_zlib
    test_inspect test_ast test_compile test_generators test_coroutines test_contextlib test_dataclasses)
if /usr/bin/python3 -c 'import test.regrtest, test.test_os' 2>/dev/null; then
    try "CPython's test suite: ${#cpython[@]} modules" "${roomy[@]}" -- python3 -m test -j2 \
        -i '*UDPLITE*' -i '*fsize*' -i test_disk_usage "${cpython[@]}"
else
    skip "CPython's test suite" "libpython3.11-testsuite is not installed"
fi

# --- pip and venv -------------------------------------------------------------------------------------------------
mkdir -p "$work/pkg/greet" "$work/wheels"
cat >"$work/pkg/setup.py" <<'PY'
from setuptools import setup
setup(name="greet", version="1.0", packages=["greet"], entry_points={"console_scripts": ["greet=greet:main"]})
PY
echo 'def main(): print("hello from a wheel")' >"$work/pkg/greet/__init__.py"
if (cd "$work/pkg" && /usr/bin/python3 setup.py -q bdist_wheel -d "$work/wheels") >"$work/log" 2>&1; then
    tar -C "$work" -cf "$work/wheels.tar" wheels
    try "venv, pip install from a directory of wheels, console script" "${roomy[@]}" --stdin "$work/wheels.tar" -- sh -ec '
        tar xf -
        python3 -m venv env
        env/bin/pip install -q --no-index --find-links wheels greet
        env/bin/greet | grep -qx "hello from a wheel"'
else
    ok "a wheel can be made on the host" 1 "$work/log"
fi

# --- node ---------------------------------------------------------------------------------------------------------
if command -v node >/dev/null; then
    cat >"$work/workers.js" <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
  const all = [1, 2, 3, 4].map(n => new Promise((resolve, reject) => {
    const w = new Worker(__filename, { workerData: n });
    w.on('message', resolve); w.on('error', reject);
  }));
  Promise.all(all).then(squares => {
    const sum = squares.reduce((a, b) => a + b, 0);
    if (sum !== 30) process.exit(1);
    require('fs').writeFileSync('out', String(sum));
    const s = require('net').createServer(c => c.end('hi')).listen(0, '127.0.0.1', () =>
      require('net').connect(s.address().port, '127.0.0.1').on('data', d => { console.log(String(d)); s.close(); }));
  });
} else parentPort.postMessage(workerData * workerData);
JS
    try "node: worker threads, files, loopback TCP" "${roomy[@]}" "$work/workers.js"
else
    skip "node" "node is not installed"
fi

# --- compilers ----------------------------------------------------------------------------------------------------
cat >"$work/Makefile" <<'MK'
CFLAGS = -O1 -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -DCSN_VERSION='"x"'
SOURCES = $(filter-out src/base/test_% src/base/fuzz_% src/base/json%, $(wildcard src/base/*.c src/wire/*.c))
OBJECTS = $(patsubst %.c,%.o,$(filter-out src/wire/test_% src/wire/fuzz_%,$(SOURCES)))
all: check
libours.a: $(OBJECTS)
	ar rcs $@ $^
test_buf: src/base/test_buf.c tests/csn_test.c libours.a
	cc $(CFLAGS) -Itests $^ -o $@
check: test_buf
	./test_buf
MK
tar -C "$work" -cf "$work/project.tar" Makefile
tar -C "$source_dir" -rf "$work/project.tar" include src/base src/wire tests/csn_test.c tests/csn_test.h
try "gcc and make build this project's base and run its test" "${roomy[@]}" --stdin "$work/project.tar" -- sh -ec 'tar xf - && make -j2'
printf '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n' >"$work/hello.c"
try "a C file is compiled and run" "${roomy[@]}" "$work/hello.c"
if command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
    printf 'package main\nimport "fmt"\nfunc main() { c := make(chan int); go func() { c <- 42 }(); fmt.Println(<-c) }\n' >"$work/main.go"
    tar -C "$work" -cf "$work/go.tar" main.go
    try "go: compiler, goroutines" "${roomy[@]}" --stdin "$work/go.tar" -- sh -ec 'tar xf - && GOFLAGS=-mod=mod GOCACHE=$PWD/c /usr/local/go/bin/go run main.go | grep -qx 42'
fi

# --- git, sqlite, shells ------------------------------------------------------------------------------------------
git init -q "$work/repo" && (
    cd "$work/repo" && echo one >a && git add a && git -c user.name=t -c user.email=t@t commit -qm first
) >"$work/log" 2>&1
tar -C "$work" -cf "$work/repo.tar" repo
try "git: clone of a local repository, branch, commit, log" "${roomy[@]}" --stdin "$work/repo.tar" -- sh -ec '
    tar xf -
    git clone -q repo copy
    cd copy
    git config user.name t && git config user.email t@t
    git checkout -q -b work && echo two >b && git add b && git commit -qm second
    test "$(git log --oneline | wc -l)" = 2'
if command -v sqlite3 >/dev/null; then
    try "sqlite3: WAL, transactions, locks" -- sh -ec '
        sqlite3 t.db "pragma journal_mode=wal; create table t(x); begin; insert into t values (1),(2); commit;"
        test "$(sqlite3 t.db "select sum(x) from t")" = 3'
fi
try "shell: pipes, job control, traps, /dev/stderr, process substitution" -- bash -ec '
    echo a >/dev/stderr; echo b >/dev/stdout
    (sleep 0.05; exit 3) & wait $! || test $? = 3
    test "$(cat <(echo x) <(echo y) | tr -d "\n")" = xy
    trap "echo caught" TERM; kill -TERM $$'
try "threads, epoll, inotify, futexes, memfd, file locks, SCM_RIGHTS" -- python3 -c '
import threading, select, os, fcntl, socket, mmap, array
lock = threading.Lock(); total = 0
def add():
    global total
    for _ in range(1000):
        with lock: total += 1
ts = [threading.Thread(target=add) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
assert total == 8000
fd = os.memfd_create("m"); os.ftruncate(fd, 4096); mmap.mmap(fd, 4096)[0:2] = b"hi"
f = open("locked", "w"); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [fd]); assert len(socket.recv_fds(b, 1, 1)[1]) == 1
e = select.epoll(); e.register(b, select.EPOLLIN); a.send(b"y"); assert e.poll(1)
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(s.getsockname())
'

# --- tools that need ptrace get a clear refusal ---------------------------------------------------------------------
if command -v strace >/dev/null; then
    "$caisson" run -- strace /bin/true >"$work/log" 2>&1 </dev/null
    grep -qi 'not permitted' "$work/log"
    ok "strace is refused in words" $? "$work/log"
fi

echo "1..$n"
exit $((failed > 0))
