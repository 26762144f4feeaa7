#!/bin/bash
# Images and volumes.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

is "volume create" "$(caisson volume create data)" data
is "… once" "$(status caisson volume create data)" 125
is "a bad name" "$(status caisson volume create ../x)" 125
caisson run -v data:/data -- sh -c 'echo kept > /data/file'
is "it outlives the sandbox" "$(caisson run -v data:/data -- cat /data/file)" kept
is "read-only" "$(caisson run -v data:/data:ro -- sh -c 'echo x > /data/file 2>/dev/null || echo refused')" refused
is "a directory in it" "$(caisson run -v data/sub/dir:/d -- sh -c 'echo s > /d/x'; caisson run -v data:/data -- cat /data/sub/dir/x)" s
is "two at once" "$(caisson run -v data:/a -v data/sub:/b -- sh -c 'cat /a/file /b/dir/x' | tr '\n' ' ')" "kept s "
is "one that isn't there" "$(caisson run -v nope:/x -- true 2>&1 | tail -n 1)" "  try: caisson volume ls"
like "volume ls" "$(caisson volume ls)" "NAME  AGE  USERS*data*0"
is "volume ls -q" "$(caisson volume ls -q)" data
is "volume ls --json" "$(caisson volume ls --json | json '[(v["name"], v["users"]) for v in d]')" "[('data', 0)]"
is "volume inspect --json" "$(caisson volume inspect --json data | json 'd["name"], d["files"] >= 2, d["size_bytes"] > 0')" "('data', True, True)"
caisson create user -v data:/data >/dev/null
is "in use: not removed" "$(status caisson volume rm data)" 125
is "… and who" "$(caisson volume inspect --json data | json 'd["users"]')" 1
caisson rm -q user
is "volume rm" "$(caisson volume rm data)" data
is "volume rm again: 125" "$(status caisson volume rm data)" 125
is "volume rm -f" "$(status caisson volume rm -f data)" 0
is "volume ls --json, empty" "$(caisson volume ls --json | json d)" "[]"

is "host is always there" "$(caisson image ls -q)" host
is "image inspect host" "$(caisson image inspect --json host | json 'd["source"], d["host_based"]')" "('host', True)"
is "host is not removed" "$(status caisson image rm host)" 125

mkdir -p root/bin root/etc root/home/daytona root/tmp
if busybox=$(command -v busybox) && file -L "$busybox" | grep -q static; then
    cp "$busybox" root/bin/busybox
    for tool in sh cat echo ls; do ln -s busybox "root/bin/$tool"; done
    in_image=1
else
    in_image=0
fi
echo marker > root/etc/marker
is "import a directory" "$(caisson image import dir root)" dir
is "… once" "$(status caisson image import dir root)" 125
tar -C root -czf root.tgz .
is "import a tar.gz" "$(caisson image import tgz root.tgz)" tgz
is "sources" "$(caisson image ls --json | json 'sorted((i["name"], i["source"]) for i in d)')" "[('dir', 'directory'), ('host', 'host'), ('tgz', 'tar')]"
like "image ls" "$(caisson image ls)" "NAME  SOURCE *SIZE  AGE  BASE*"
like "image inspect" "$(caisson image inspect dir)" "name     dir*source   directory*"
if [ "$in_image" = 1 ]; then
    is "run in an imported directory" "$(caisson run --image dir -- cat /etc/marker)" marker
    is "run in an imported tar" "$(caisson run --image tgz -- cat /etc/marker)" marker
else
    skip "run in an imported directory" "no static busybox"
    skip "run in an imported tar" "no static busybox"
fi
if [ "$in_image" = 1 ]; then
    "$CSN_SOURCE/tests/make-oci" oci root/bin/busybox
    is "import an OCI layout" "$(caisson image import oci oci)" oci
    is "its configuration" "$(caisson image inspect --json oci | json 'd["entrypoint"], d["cmd"], d["user"], d["cwd"], d["env"]["COLOR"]')" \
        "(['/bin/busybox', 'echo', 'entry'], ['own words'], 'app:app', '/srv/work', 'blue')"
    like "… to read" "$(caisson image inspect oci)" "*entry    /bin/busybox echo entry*command  'own words'*"
    is "no command: the image's own" "$(caisson run -q --image oci)" "entry own words"
    is "a command follows the entrypoint" "$(caisson run -q --image oci -- a b)" "entry a b"
    is "another entrypoint" "$(caisson run -q --image oci --entrypoint pwd)" /srv/work
    is "… with words" "$(caisson run -q --image oci --entrypoint sh -- -c 'echo $COLOR')" blue
    is "… and none" "$(caisson run -q --image oci --entrypoint '' -- pwd)" /srv/work
    is "what is given wins" "$(caisson run -q --image oci --entrypoint '' -e COLOR=red -w /etc -- sh -c 'echo $COLOR $PWD')" "red /etc"
    both caisson run --image oci -- a
    like "a user it doesn't get is told" "$err" "*image 'oci' asks for user 'app:app'; commands run as 'daytona' (uid 1000)*"
    is "… not twice" "$out" "entry a"
    caisson create kept --image oci -q
    is "exec knows no entrypoint" "$(caisson exec kept sh -c 'echo $COLOR $PWD')" "blue /srv/work"
    caisson snapshot kept again -q
    caisson rm -q kept
    is "a snapshot keeps it" "$(caisson run -q --image again)" "entry own words"
    caisson image rm -q oci again
    both caisson run -q --image dir
    is "an image without a command" "$status" 125
    like "… says so" "$err" "*image 'dir' names no command of its own*caisson run*"
else
    skip "images with a configuration" "no static busybox"
fi
is "host has no command either" "$(status caisson run --image host)" 125
is "an entrypoint for a file" "$(status caisson run --entrypoint sh x.py)" 125
is "an entrypoint without an image" "$(caisson run --entrypoint echo -- a b)" "a b"
echo garbage > not.tar
both caisson image import bad not.tar
is "garbage is refused" "$status" 125
is "… and leaves no image" "$(caisson image ls -q | grep -c bad)" 0
is "import of nothing" "$(status caisson image import x no-such-file)" 125
is "image rm" "$(caisson image rm dir tgz | tr '\n' ' ')" "dir tgz "
is "image rm again: 125" "$(status caisson image rm dir)" 125
is "image build needs to know what" "$(status caisson image build x)" 2
plan
