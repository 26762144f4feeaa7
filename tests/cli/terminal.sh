#!/bin/bash
# On a real terminal (tmux draws it): escapes made harmless, shell, resize, stats, Ctrl-C, and the terminal restored.
# shellcheck disable=SC1091,SC2154,SC2016,SC2015,SC2035,SC2094 # lib.sh; the quotes are for the shell inside
. "${CSN_SOURCE:?}/tests/cli/lib.sh"
need_sandboxes
if ! command -v tmux >/dev/null; then
    skip "terminal" "tmux is missing"
    plan
    exit
fi

t() { tmux -L "csn-$$" -f /dev/null "$@"; }
stop_tmux() { t kill-server 2>/dev/null; }
trap 'stop_tmux; finish' EXIT
screen() { t capture-pane -p -t s; }
shows() { screen | grep -qF -- "$1"; }
type_line() { t send-keys -t s -l "$1" && t send-keys -t s Enter; }
# see NAME TEXT: wait until TEXT is on the screen
see()
{
    if until_true 15 shows "$2"; then ok "$1"; else not_ok "$1" "wanted on the screen: $2" "$(screen)"; fi
}

t new-session -d -s s -x 100 -y 30 "exec bash --norc --noprofile -i"
type_line "PS1='host''> '"
see "a terminal" "host>"
# the terminal's settings, but for its size
type_line "settings() { stty -a | sed 's/rows [0-9]*; columns [0-9]*//'; }; settings > before"
type_line "restored() { cmp before <(settings) && echo restored-\$((1 + 1)); }"

# ---- what a sandbox prints doesn't drive the terminal
type_line "clear; caisson run -q -- printf 'a\\033[31mred\\033]0;title\\a\\302\\205b\\rX\\n'"
see "escapes are shown, not obeyed" 'a\x1b[31mred\x1b]0;title\x07'
type_line "clear; caisson run -q -- printf 'caf\\303\\251 \\342\\202\\254\\n'"
see "ordinary UTF-8 is left alone" 'café €'
type_line "clear; caisson run -- sh -c 'exit 4'; echo status=\$?"
see "the receipt" "caisson: exit 4 ·"
see "… after the output, with the status" "status=4"
type_line "clear; caisson run --raw -q -- printf 'plain\\033[1mbold\\n'"
see "--raw lets them through" "plainbold"
type_line "clear; caisson create -n 'box' -l \$'k=\\033[2Jv' && caisson ls; echo end"
see "labels are made harmless in tables" 'k=\x1b[2Jv'

# ---- Ctrl-C
type_line "clear; caisson run -- sh -c 'echo running; sleep 600'; echo status=\$?"
see "a command that runs" "running"
t send-keys -t s C-c
see "Ctrl-C ends it" "status=130"

# ---- shell
type_line "clear; caisson shell -q box"
see "a shell" "daytona@"
type_line "stty size; tty"
see "it has our size" "30 100"
see "… on a terminal of its own" "/dev/pts/"
t resize-window -t s -x 90 -y 25
type_line "clear; stty size"
see "resizing is followed" "25 90"
type_line "clear; sh -c 'echo begun; exec sleep 600'"
see "a command in it" "begun"
t send-keys -t s C-c
type_line "echo after-\$((40 + 2))"
see "Ctrl-C goes inside" "after-42"
type_line "printf 'in\\033[7mverse\\033[0m\\n'"
see "it may draw" "inverse"
type_line "exit 6"
see "and it ends" "host>"
type_line "echo status=\$?; restored"
see "… with its status" "status=6"
see "the terminal is as before" "restored-2"

type_line "clear; caisson shell -q"
see "a shell in a fresh sandbox" "daytona@"
type_line "id -u; exit"
see "… as its user" "1000"
see "… until it ends" "host>" # what is typed earlier goes inside
type_line "clear; caisson ls --names"
see "… which is gone" "box"

# ---- a client that is told to go restores the terminal
type_line "clear; caisson shell -q box"
see "a shell again" "daytona@"
kill -TERM "$(pgrep -f -P "$(t display-message -p -t s '#{pane_pid}')" "caisson shell -q box")"
see "SIGTERM ends it" "host>"
type_line "clear; restored"
see "SIGTERM restores the terminal" "restored-2"

# ---- run -t
type_line "clear; caisson run -tq -- sh -c 'tty; stty size'; echo ended-\$((1 + 1))"
see "run -t" "25 90"
see "… ends" "ended-2"

# ---- stats, live
type_line "clear; caisson stats"
see "stats draws a table" "MEMORY"
see "… with its sandbox" "box"
see "… and says how to leave" "q to leave"
t resize-window -t s -x 70 -y 20
see "… after a resize too" "q to leave"
t send-keys -t s q
see "q leaves" "host>"
type_line "clear; restored"
see "and restores the terminal" "restored-2"

type_line "clear; COLUMNS=50 caisson ls"
see "a table is cut at the width" "…"
type_line "clear; echo | caisson shell; echo status=\$?"
see "shell without a terminal is refused" "standard input is not a terminal"
caisson rm -q box
plan
