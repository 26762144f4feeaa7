#!/bin/bash
# What the program says about itself and about misuse; no sandbox is made.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"

both caisson
is "without arguments: the overview" "$status" 0
like "… on stdout" "$out" "usage: caisson*"
is "--help is the same" "$(caisson --help)" "$out"
like "version" "$(caisson version)" "caisson [0-9]*.*"
is "--version is version" "$(caisson --version)" "$(caisson version)"
is "version --json is JSON" "$(caisson version --json | json 'list(d)')" "['version']"

for command in $(caisson help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    both caisson help "$command"
    like "help $command" "$status $out" "0 usage: caisson $command*"
    is "$command --help is the same" "$(caisson "$command" --help)" "$out"
    is "help $command fits on a page" "$(printf '%s\n' "$out" | sed 1,2d | awk 'length > 110')" ""
done
like "help of a subcommand" "$(caisson help image import)" "usage: caisson image import NAME FILE|DIR*"

both caisson rum
is "an unknown command: 2" "$status" 2
is "… and a guess" "$err" $'caisson: no command \'rum\'\n  try: caisson run'
is "… nothing on stdout" "$out" ""
both caisson image lss
like "an unknown subcommand" "$status $err" "2 caisson: image: no subcommand 'lss'; did you mean 'ls'?*"
is "a subcommand is missing: 2" "$(status caisson volume)" 2

both caisson run --bogus -- true
is "an unknown option of run: 125" "$status" 125
is "… is named" "${err%%$'\n'*}" "caisson: run: unknown option '--bogus'"
is "an unknown option of exec: 125" "$(status caisson exec --bogus x y)" 125
is "an unknown option of ls: 2" "$(status caisson ls --bogus)" 2
is "an unknown letter" "$(caisson ls -Z 2>&1 | head -n 1)" "caisson: ls: unknown option '-Z'"
is "a flag takes no value" "$(caisson ls --json=1 2>&1 | head -n 1)" "caisson: ls: option '--json' takes no value"
is "a value is missing" "$(caisson run --name 2>&1 | head -n 1)" "caisson: run: option '--name' needs a value: NAME"
is "nothing to run" "$(caisson run 2>&1 | head -n 1)" "caisson: run: what to run is missing: FILE, or -- COMMAND"
is "nothing after --" "$(caisson run -- 2>&1 | head -n 1)" "caisson: run: what to run is missing: FILE, or -- COMMAND"
like "an operand is missing" "$(caisson exec box 2>&1)" "caisson: exec: an argument is missing; usage: caisson exec *"
is "an operand too many" "$(caisson inspect a b 2>&1 | head -n 1)" "caisson: inspect: unexpected argument 'b'"

first() { caisson "$@" 2>&1 | head -n 1; }
is "a bad size" "$(first run -m lots -- true)" \
    "caisson: run: --memory 'lots': not a size such as 512m or 2g, or unlimited"
is "megabytes without the m" "$(first run -m 512 -- true)" \
    "caisson: run: --memory 512 is 512 B; the least is 4m, so write 512m for megabytes"
is "a bad time" "$(first run --timeout soon -- true)" \
    "caisson: run: --timeout 'soon': not a time such as 30s, 5m or 250ms, or unlimited"
is "a bad number of cores" "$(first run --cpu -1 -- true)" \
    "caisson: run: --cpu '-1': not a number of cores such as 0.5 or 2, or unlimited"
is "a bad count" "$(first run --pids many -- true)" "caisson: run: --pids 'many': not a whole number, or unlimited"
is "a bad choice" "$(first run --net host -- true)" "caisson: run: --net 'host': not one of: none outbound"
like "a bad name" "$(first run --name ../x -- true)" "caisson: run: --name '../x': a name is *"
like "a host directory as volume" "$(first run -v /etc:/x -- true)" \
    "caisson: run: --volume '/etc:/x': host directories are never mounted;*"
is "a bad volume flag" "$(first run -v a:/x:rx -- true)" \
    "caisson: run: --volume 'a:/x:rx': the flag 'rx' is neither ro nor rw"
is "a relative cwd" "$(first run -w here -- true)" "caisson: run: --cwd 'here': not an absolute path"
is "an unknown limit" "$(first run --strict speed -- true)" "caisson: run: --strict: no such word 'speed'"
is "an unknown wall" "$(first run --optional moat -- true)" "caisson: run: --optional: no such word 'moat'"
is "an env file that isn't there" "$(first run --env-file none.env -- true)" \
    "caisson: run: --env-file 'none.env': No such file or directory"
is "an input that isn't there" "$(first run --stdin none.txt -- cat)" \
    "caisson: run: --stdin 'none.txt': No such file or directory"
is "terminal and JSON" "$(first run -t --json -- true)" "caisson: run: --tty and --json exclude each other"
is "keep and rm" "$(first run --keep --rm -- true)" "caisson: run: --keep and --rm exclude each other"
is "cp between two host places" "$(first cp a b)" "caisson: cp: neither 'a' nor 'b' is in a sandbox: write BOX:PATH"
is "cp between two sandboxes" "$(first cp a:x b:y)" "caisson: cp: one of the two places must be on this machine"

both caisson run no-such-file.py
is "a file that isn't there: 125" "$status" 125
is "… and what may have been meant" "$err" \
    $'caisson: run \'no-such-file.py\': no such file\n  try: caisson run -- COMMAND, for a program inside'
echo text > plain
is "a file nothing runs" "$(first run plain)" "caisson: run 'plain': can't tell what runs it"
is "a directory" "$(first run /tmp)" "caisson: run '/tmp': not a regular file"
mkfifo pipe.py
is "a FIFO doesn't hang" "$(first run pipe.py)" "caisson: run 'pipe.py': not a regular file"
both caisson run --json no-such-file.py
is "a failure with --json is a document" "$(printf '%s' "$out" | json 'd["error"]["code"]')" not_found

is "a word of another program" "$(caisson rmi 2>&1 | tail -n 1)" "  try: caisson image rm"
both caisson run --bogus --json -- true
is "a misuse with --json is a document" "$(printf '%s' "$out" | json 'd["error"]["message"]')" "run: unknown option '--bogus'"
both caisson run --bogus -- true --json
is "… not when it is the command's" "$out" ""
both caisson version --json x
is "… of version, too" "$(printf '%s' "$out" | json 'd["error"]["code"]')" invalid

both caisson $'\033]0;evil\a'
case $err in
*$'\033'*) not_ok "our own errors carry no control characters" "${err@Q}" ;;
*) ok "our own errors carry no control characters" ;;
esac
is "a full stdout is an error" "$(caisson help >/dev/full 2>err; echo "$? $(cat err)")" \
    "125 caisson: write to standard output: No space left on device"
is "a closed pipe is no noise" "$( (caisson help run; echo "$?" >st) 2>&1 | true; cat st)" "$(cat st)"

for pair in bash:caisson.bash zsh:_caisson fish:caisson.fish; do
    if caisson completion "${pair%%:*}" | cmp -s - "$CSN_SOURCE/completions/${pair#*:}"; then
        ok "completions/${pair#*:} is what 'completion ${pair%%:*}' prints"
    else
        not_ok "completions/${pair#*:} is what 'completion ${pair%%:*}' prints" \
            "make it anew: build/caisson completion ${pair%%:*} > completions/${pair#*:}"
    fi
    if command -v "${pair%%:*}" >/dev/null; then
        is "${pair%%:*} can read it" "$("${pair%%:*}" -n "$CSN_SOURCE/completions/${pair#*:}" 2>&1)" ""
    else
        echo "# ${pair%%:*} is not here"
    fi
done
is "no completion for csh" "$(status caisson completion csh)" 2

complete_bash()
{
    bash -c '. "$CSN_SOURCE/completions/caisson.bash"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _caisson; echo "${COMPREPLY[*]}"' bash "$@"
}
export CSN_SOURCE
is "bash completes commands" "$(complete_bash caisson doc)" "doctor"
is "bash completes options" "$(complete_bash caisson run --mem)" "--memory"
is "bash completes subcommands" "$(complete_bash caisson image i)" "import inspect"
is "bash completes values" "$(complete_bash caisson run --net o)" "outbound"
is "bash completes images" "$(complete_bash caisson run --image ho)" "host"
plan
