# quietly.sh NAME COMMAND…: one line per step, after every 10 s what it is at; its output only when it fails.
name=$1
shift
log=$(mktemp)
printf '%s ... ' "$name"
start=$(date +%s)
(   # ends with this shell, however that ends
    trap 'kill "$nap" 2>/dev/null; exit' TERM
    while kill -0 $$ 2>/dev/null; do
        sleep "${QUIETLY_SECONDS:-10}" >/dev/null 2>&1 &
        nap=$!
        wait "$nap"
        printf '\n  %s s: %s ' "$(($(date +%s) - start))" "$(tail -n 1 "$log" 2>/dev/null | cut -c 1-80)"
    done
) &
progress=$!
trap 'kill "$progress" 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
if "$@" >"$log" 2>&1; then
    printf 'done, %s s\n' "$(($(date +%s) - start))"
else
    code=$?
    printf 'FAILED\n\n' >&2
    tail -n 30 "$log" >&2
    printf '\nThe step "%s" failed (exit code %s): %s\nMend what it says above and run make again; finished steps are not repeated.\n' "$name" "$code" "$*" >&2
    exit 1
fi
