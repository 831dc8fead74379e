# Sourced by .ci/run and scripts/before_release: stages that stop at the first failure, in the folder of the clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

stages=0
heading() {
  stages=$((stages + 1))
  printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# Starts a stage beside what follows: its title, and a command. `together` shows what it printed.
titles=() processes=()
beside() {
  ( "${@:2}" ) >"$scratch/beside.${#titles[@]}" 2>&1 &
  titles+=("$1") processes+=($!)
}

# Waits for the stages that run beside each other. One that has failed ends the run.
together() {
  local one failed=()
  for one in "${!titles[@]}"; do
    wait "${processes[one]}" || failed+=("${titles[one]}.")
    heading "${titles[one]}"
    cat "$scratch/beside.$one"
  done
  [ ${#failed[@]} = 0 ] || { printf '\nFailed: %s\n' "${failed[*]}"; exit 1; }
  titles=() processes=()
}

# Installs packages on Debian as root, and tries again if the mirror fails for a moment.
apt() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 0
  for pause in 5 15 30 0; do
    { apt-get update && apt-get install --yes --no-install-recommends "$@"; } >"$scratch/apt.log" 2>&1 && return
    sleep "$pause"
  done
  tail -5 "$scratch/apt.log"
}

# Fails unless there is a command. The others are the packages of Debian that have it.
needed() {
  local PATH=$PATH:/usr/sbin
  command -v "$1" >/dev/null || apt "${@:2}"
  command -v "$1" || { echo "There is no $1 here: install ${*:2}."; exit 1; }
}
