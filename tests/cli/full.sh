#!/bin/bash
# Output that can't be written is an error of every verb: said once, status 125. A pipe without a reader is 141, or no error
# at all, and silent.
# shellcheck disable=SC1091,SC2154,SC2016,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes

caisson create stays >/dev/null
caisson exec -d stays sh -c 'echo logged' >/dev/null
caisson exec stays sh -c 'echo content >file'
caisson volume create vol >/dev/null
caisson run -q -v vol:/vol -- sh -c 'echo text >/vol/file'
caisson interp -q --session kept -c 'x = 1' >/dev/null 2>&1
printf 'import sys\nopen(sys.argv[2], "w").write("artifact")\n' >good.py
caisson org set alice --max-sandboxes 5 >/dev/null
printf '```sh\necho block\n```\n' >blocks.md
mkdir repo && (cd repo && git init -q && echo hi >README.md && git add README.md &&
    git -c user.name=x -c user.email=x@y commit -qm x) >/dev/null 2>&1
printf '#!/bin/sh\ncat >/dev/null\nprintf '"'"'```python\\nSUBMIT(answer=1)\\n```\\n'"'"'\n' >model
chmod +x model
until_true 10 sh -c 'caisson logs stays | grep -q logged'

# Verb, then its arguments; ITS is a name that was not used before. "-": this one prints nothing when it succeeds, or wants a
# terminal to print to (run -t goes the same way).
verbs="
run -q -- echo hi
run -q -- sh -c 'yes | head -c 200000'
run --json -q -- true
run -d --rm -- true
run -q -t -- echo hi
create ITS
create --json ITS
exec stays echo hi
exec --json stays true
exec -d stays true
-shell
arena -q --plain -c a=good.py x
arena -q --json -c a=good.py x
candidate -q good.py -o x
candidate -q --json good.py -o x
blocks blocks.md
blocks --json blocks.md
blocks --reply blocks.md
blocks --extract-only blocks.md
interp -q -c 'print(1)'
interp -q -c 'SUBMIT(a=1)'
interp -q --json -c '1'
rlm -q --llm-cmd ./model 'a task'
session ls
session ls --json
session export kept
smoke --repo ./repo
diagnose
ls
ls -q
ls --names
ls --json
inspect stays
inspect --json stays
logs stays 1
stats --no-stream
stats --json
cp stays:file -
-start
-stop
-rm
fork stays ITS
-snapshot
image ls
image ls --json
image inspect host
volume create ITS
volume ls
volume ls --json
volume inspect vol
volume tree vol
volume cat vol file
key ls
org ls
gc
gc --json
doctor
doctor --json
version
version --json
completion bash
completion zsh
completion fish
help
help run
"

its=0
walk()
{
    local line words verb
    seen=" "
    while read -r line; do
        [ -n "$line" ] || continue
        verb=${line%% *}
        seen+="${verb#-} "
        case $line in -*) continue ;; esac
        its=$((its + 1))
        eval "words=(${line//ITS/its$its})"
        "$1" "${words[@]}"
    done <<<"$verbs"
}

# no_room WORD…
no_room()
{
    local said wanted="125 caisson: write to standard output: No space left on device"
    said=$(caisson "$@" 2>&1 >/dev/full </dev/null)
    said="$? $(grep 'write to' <<<"$said")"
    is "> /dev/full: $*" "$said" "$wanted"
}

closed()
{
    local said wanted="125 caisson: write to standard output: Bad file descriptor"
    said=$(caisson "$@" 2>&1 >&- </dev/null)
    said="$? $(grep 'write to' <<<"$said")"
    is ">&-: $*" "$said" "$wanted"
}

# The reader is gone before the first byte.
no_reader()
{
    local said
    mkfifo "$work/pipe"
    exec 7<>"$work/pipe" 8>"$work/pipe" 7<&-
    said=$(caisson "$@" 2>&1 >&8 </dev/null 8>&-)
    said="$? $(grep -c 'write to\|Broken pipe' <<<"$said")"
    exec 8>&-
    rm "$work/pipe"
    like "no reader: $*" "$said" "@(0|1|141) 0"
}

shopt -s extglob
walk no_room
for verb in $(caisson help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    [ "$verb" = serve ] && continue # a server's output is its log
    like "$verb is among the verbs" "$seen" "* $verb *"
done
walk closed
walk no_reader
is "nothing to print: no error" "$(caisson run -q -- true >/dev/full 2>&1; echo $?) $(caisson run -q -- true >&- 2>/dev/null; echo $?)" "0 0"
is "a program's stderr counts as well" "$(caisson run -q -- sh -c 'echo x >&2' 2>/dev/full >/dev/null; echo $?)" 125
is "a full disk ends the program" "$(caisson run -q -- yes 2>/dev/null >/dev/full; echo $?)" 125
is "a reader who had enough ends it, too" "$( (caisson run -q -- yes 2>/dev/null; echo $? >st) | head -n 1; cat st)" "y
141"
plan
