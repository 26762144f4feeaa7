# shellcheck shell=sh
# Eta: the same task in shell. $1 is the objective, $2 the file to write.
echo "[Eta] $1"
{
    echo "# AI Events in San Francisco"
    echo
    day=3
    for title in "Shell for people" "Pipes and models" "Awk night"; do
        echo "- 2026-03-0$day: **$title** in SoMa (talk) https://events.example/eta/$day"
        day=$((day + 1))
    done
} >"$2"
