# Sourced by setup.sh: numbered steps with a log each, and a failure message that says what to do.

total_steps=0 step_index=0 spinner= interrupted=

stop_spinner() {
  [ -z "$spinner" ] || { kill "$spinner" 2>/dev/null; wait "$spinner" 2>/dev/null; } || true
  spinner=
}
trap stop_spinner EXIT
trap 'interrupted=yes' INT  # bash waits for the running command, which gets the signal too

# start_spinner LABEL LOG START: on a terminal, shows seconds and the log's last line until stopped.
start_spinner() {
  [ -t 1 ] || return 0
  (
    trap 'exit 0' TERM
    while sleep 1; do
      printf '\r\033[K%s ... %s s  %.60s' "$1" "$((SECONDS - $3))" "$(tail -n 1 "$2" | tr -d '\r\033')"
    done
  ) 2>/dev/null &
  spinner=$!
}

# step TITLE LOGNAME HINT CHECK COMMAND...: runs COMMAND (a function of the caller) into build/logs/LOGNAME.log, unless
# CHECK finds its result in place. On failure shows the log's end and HINT, and exits.
step() {
  local title=$1 log=build/logs/$2.log hint=$3 check=$4 status start=$SECONDS
  shift 4
  step_index=$((step_index + 1))
  local label="[$step_index/$total_steps] $title"
  if "$check"; then
    echo "$label ... ready"
    return
  fi
  mkdir -p build/logs
  : >"$log"
  [ -t 1 ] || echo "$label ..."
  start_spinner "$label" "$log" "$start"
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  stop_spinner
  [ ! -t 1 ] || printf '\r\033[K'
  if [ -n "$interrupted" ]; then
    echo "$label ... interrupted; the same command goes on from here"
    exit 130
  fi
  if [ "$status" -ne 0 ]; then
    echo "$label ... failed ($((SECONDS - start)) s). The end of $log:"
    tail -n 20 "$log" | sed 's/^/    /'
    echo "What to do: $hint"
    exit 1
  fi
  echo "$label ... done ($((SECONDS - start)) s)"
}

never() { false; }  # a step that is its own check
