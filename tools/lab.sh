#!/usr/bin/env bash
# Start JupyterLab at the map of chapters: tools/lab.sh ADDRESS PORT. The Makefile sets up the paths.
set -euo pipefail

options=(--ServerApp.ip="$1" --ServerApp.port="$2" --ServerApp.root_dir="$PWD")
options+=(--LabApp.default_url=/lab/tree/book/index.md)
# Only the address and what goes wrong are printed; nothing is looked up on the network.
options+=(--ServerApp.log_level=WARN --LabApp.log_level=WARN --LabApp.extension_manager=readonly)
# The layout of open tabs is kept per clone, apart from the user's other JupyterLab work.
options+=(--LabApp.workspaces_dir="$PWD/.course/workspaces")

# The course's own stored outputs are shown as they are, widgets' pictures included: trusted in this
# clone's register of signatures, not in the user's.
mkdir -p .course
trust=(--NotebookNotary.db_file="$PWD/.course/signatures.db" --NotebookNotary.secret_file="$PWD/.course/secret")
shopt -s nullglob
notebooks=(chapters/*.ipynb labs/*.ipynb labs/solutions/*.ipynb)
if ((${#notebooks[@]})); then # without a name `jupyter trust` would wait for a notebook on its input
  jupyter trust --log-level=WARN "${trust[@]}" "${notebooks[@]}" >/dev/null
fi
options+=("${trust[@]}")

# What kernels and server say to each other is encrypted; plain, each kernel would print a warning.
options+=(--MappingKernelManager.transport_encryption=auto)

if [ "$(id -u)" = 0 ]; then
  options+=(--allow-root) # in a container there is often no other user
fi
if [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  echo "No display here: open the address below in a browser. Ctrl-C twice stops JupyterLab."
  options+=(--no-browser)
fi
exec jupyter lab "${options[@]}"
