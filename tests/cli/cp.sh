#!/bin/bash
# caisson cp: both ways, trees, links, odd names, and what a hostile sandbox plants.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes
caisson create box >/dev/null

echo text > f
is "a file in" "$(status caisson cp f box:g; caisson exec box cat g)" $'0\ntext'
is "into the home directory" "$(caisson cp f box: && caisson exec box cat /home/daytona/f)" text
is "into a directory" "$(caisson cp f box:/tmp/ && caisson exec box cat /tmp/f)" text
is "parents are made" "$(caisson cp f box:a/b/c && caisson exec box cat a/b/c)" text
is "a file out" "$(caisson cp box:g out && cat out)" text
mkdir d
is "out into a directory" "$(caisson cp box:g d && cat d/g)" text
is "out to stdout" "$(caisson cp box:g -)" text
is "in from stdin" "$(printf 'no newline' | caisson cp - box:s && caisson exec box cat s)" "no newline"
head -c 5000000 /dev/urandom > big
caisson cp big box:big && caisson cp box:big big2
if cmp -s big big2; then ok "five megabytes, exact"; else not_ok "five megabytes, exact"; fi
printf '#!/bin/sh\necho runs\n' > tool && chmod 755 tool
is "the mode comes along" "$(caisson cp tool box:tool && caisson exec box ./tool)" runs

mkdir -p t/sub/deep t/empty && echo 1 > t/one && echo 2 > t/sub/deep/two && ln -s sub/deep/two t/link && ln -s /nowhere t/dangling
printf x > "$(printf 't/odd\nname \\ \047"')"
is "a tree in" "$(status caisson cp t box:tree)" 0
is "… whole" "$(caisson exec box sh -c 'cd tree && find . | sort | wc -l; cat link; readlink dangling; test -d empty && echo dir')" $'10\n2\n/nowhere\ndir'
is "a tree out" "$(status caisson cp box:tree back)" 0
if diff -r --no-dereference t back >/dev/null; then ok "… the same"; else not_ok "… the same" "$(diff -r --no-dereference t back 2>&1)"; fi
is "into an existing directory" "$(mkdir into && caisson cp box:tree into && ls into)" tree
is "contents by /." "$(caisson cp t/. box:flat && caisson exec box cat flat/one)" 1

is "no such file inside" "$(caisson cp box:nope x 2>&1; echo $?)" $'caisson: copy \'nope\': no such file inside\n125'
is "no such file outside" "$(caisson cp nope box:x 2>&1)" "caisson: open 'nope': No such file or directory"
is "a colon in a host name" "$(echo c > 'a:b'; caisson cp './a:b' box:colon && caisson exec box cat colon)" c

# ---- what a hostile sandbox plants
caisson exec box sh -c 'mkdir evil && cd evil && mkfifo pipe && ln -s /etc/passwd passwd && echo fine > fine'
both caisson cp box:evil evil
is "a FIFO in a tree is passed over: 1" "$status" 1
like "… and named" "$err" "caisson: passed over 'evil/pipe':*"
is "… the rest is there" "$(cat evil/fine)" fine
is "a link stays a link" "$(readlink evil/passwd)" /etc/passwd
is "a place that can't be written" "$(echo x > w; caisson cp w box:/ 2>&1)" "caisson: write '/w': Permission denied"
is "a device has no contents" "$(caisson cp box:/dev/zero - 2>&1)" "caisson: '/dev/zero': not a regular file"
is "a FIFO alone is refused at once" "$(caisson exec box mkfifo p; timeout 5 caisson cp box:p x >/dev/null 2>&1; echo $?)" 125
is "a device is refused" "$(status caisson cp box:/dev/zero x)" 125
# A first copy leaves a link on the host; a second one must not write through it.
echo precious > precious
caisson exec box sh -c "mkdir two && ln -s '$work/precious' two/file"
caisson cp box:two two
caisson exec box sh -c 'rm two/file && echo overwritten > two/file'
caisson cp box:two/. two >/dev/null 2>&1
is "nothing is written through a planted link" "$(cat precious)" precious
caisson exec box sh -c "rm -rf three; mkdir three && ln -s '$work' three/up"
caisson cp box:three three
caisson exec box sh -c 'rm three/up && mkdir three/up && echo overwritten > three/up/precious'
caisson cp box:three/. three >/dev/null 2>&1
is "nor through a planted directory link" "$(cat precious)" precious
caisson exec box sh -c 'truncate -s 2G huge'
is "a reader that has enough may leave two sparse gigabytes" "$(timeout 20 caisson cp box:huge - 2>/dev/null | head -c 5 | wc -c)" 5
caisson rm -q box
plan
