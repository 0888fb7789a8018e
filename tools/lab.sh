#!/usr/bin/env bash
# Start JupyterLab at the map of chapters: tools/lab.sh ADDRESS PORT. The Makefile sets up the paths.
set -euo pipefail

options=(--ServerApp.ip="$1" --ServerApp.port="$2" --ServerApp.root_dir="$PWD")
options+=(--LabApp.default_url=/lab/tree/book/index.md)
# The layout of open tabs is kept per clone, apart from the user's other JupyterLab work.
options+=(--LabApp.workspaces_dir="$PWD/.course/workspaces")

if [ "$(id -u)" = 0 ]; then
  options+=(--allow-root) # in a container there is often no other user
fi
if [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  echo "No display here: open the address below in a browser. Ctrl-C twice stops JupyterLab."
  options+=(--no-browser)
fi
exec jupyter lab "${options[@]}"
