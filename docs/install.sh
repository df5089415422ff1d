#!/bin/sh
# Installs AgentTrace for you and starts its recorder as a service, without root.
#
#   sh install.sh                     install, or use what is installed, and start the service
#   sh install.sh --from PACKAGE      a wheel, a directory or a requirement instead of "agenttrace"
#   sh install.sh --upgrade           install the newest version again
#   sh install.sh --no-service        the program only
#   sh install.sh --dry-run           show what would be done
#   sh install.sh --uninstall         stop and remove the service and the program; recorded data stays
#
# Linux: a systemd user unit. macOS: a launchd agent. `agenttrace service install` does that part.
set -eu

package=agenttrace
upgrade=no
service=yes
dry=no
remove=no
root=no
own="${XDG_DATA_HOME:-$HOME/.local/share}/agenttrace-program"
link="$HOME/.local/bin/agenttrace"

say() { printf '%s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$1" >&2
  if [ $# -gt 1 ]; then printf 'fix:   %s\n' "$2" >&2; fi
  exit 1
}

# Runs a command, or prints it with --dry-run.
run() {
  if [ "$dry" = yes ]; then say "would run: $*"; else "$@"; fi
}

has() { command -v "$1" >/dev/null 2>&1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --from)
      [ $# -gt 1 ] || fail "--from needs a package" "For example: --from dist/agenttrace-0.1.0-py3-none-any.whl"
      package=$2
      upgrade=yes
      shift
      ;;
    --upgrade) upgrade=yes ;;
    --no-service) service=no ;;
    --dry-run) dry=yes ;;
    --uninstall) remove=yes ;;
    --as-root) root=yes ;;
    -h | --help)
      sed -n '2,11s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) fail "unknown option $1" "See: sh install.sh --help" ;;
  esac
  shift
done

if [ "$(id -u)" = 0 ] && [ "$root" = no ]; then
  fail "do not run this as root: it installs for one user, and needs no rights" \
    "Run it as the user whose agents are recorded, or with --as-root if that is root."
fi

case "$(uname -s)" in
  Linux) manager=systemctl ;;
  Darwin) manager=launchctl ;;
  *) fail "this script is for Linux and macOS" "Elsewhere: uv tool install agenttrace, then: agenttrace service install" ;;
esac

# The program, wherever it is.
program() {
  if has agenttrace; then
    command -v agenttrace
  elif [ -x "$link" ]; then
    say "$link"
  fi
}

has_python() {
  has python3 && python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

install_program() {
  if has uv; then
    run uv tool install --force "$package"
  elif has pipx; then
    run pipx install --force "$package"
  elif has_python; then
    run python3 -m venv "$own"
    run "$own/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "$package"
    run mkdir -p "$(dirname "$link")"
    run ln -sf "$own/bin/agenttrace" "$link"
  else
    fail "neither uv, nor pipx, nor Python 3.11 with venv is here" "Install uv: https://docs.astral.sh/uv/"
  fi
}

remove_program() {
  if [ -d "$own" ]; then
    run rm -rf "$own"
    run rm -f "$link"
  elif has uv && uv tool list 2>/dev/null | grep -q '^agenttrace '; then
    run uv tool uninstall agenttrace
  elif has pipx && pipx list --short 2>/dev/null | grep -q '^agenttrace '; then
    run pipx uninstall agenttrace
  else
    say "The program was not installed by this script; it stays."
  fi
}

check_manager() {
  has "$manager" || fail "there is no $manager here" "Install the program only: --no-service; then keep agenttrace up running."
  if [ "$manager" = systemctl ] && ! systemctl --user show-environment >/dev/null 2>&1; then
    fail "systemd has no session for you here (systemctl --user fails)" \
      "Log in as this user, not with su; or use --no-service, and keep agenttrace up running."
  fi
}

if [ "$remove" = yes ]; then
  found=$(program)
  if [ -n "$found" ]; then run "$found" service uninstall; fi
  remove_program
  say "Recorded data stays in ${AGENTTRACE_HOME:-$HOME/.agenttrace}; delete it if you do not want it."
  exit 0
fi

# Everything is checked before anything is changed.
if [ "$service" = yes ]; then check_manager; fi

found=$(program)
if [ -z "$found" ] || [ "$upgrade" = yes ]; then
  install_program
  found=$(program)
else
  say "Using $found ($("$found" --version))."
fi
if [ -z "$found" ] && [ "$dry" = yes ]; then found=agenttrace; fi
[ -n "$found" ] || fail "the program is installed, but not found" "Add the directory of uv or pipx to PATH: uv tool update-shell"

if [ "$service" = yes ]; then run "$found" service install; fi

has agenttrace || say "Add $(dirname "$found") to PATH to call it by its name."
say "Next: $found (the live view), $found up (the console in the browser)"
