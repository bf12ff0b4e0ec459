#!/bin/sh
# Debian packages that are missing, a user who is not root, and the task's folders.
# Arguments: COMMAND=PACKAGE[+PACKAGE…]; where the base has the command, nothing is installed for it.
set -eu
missing=""
for pair in git=git rg=ripgrep "$@"; do
  command -v "${pair%%=*}" >/dev/null 2>&1 || missing="$missing $(echo "${pair#*=}" | tr + ' ')"
done
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
# Kakite runs with Debian's own Python, whichever other the base has.
/usr/bin/python3 -c 'import asyncio, venv' 2>/dev/null || missing="$missing python3"
if [ -n "$missing" ]; then
  apt-get update -q
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
  rm -rf /var/lib/apt/lists/*
fi
if ! id kakite >/dev/null 2>&1; then
  groupadd --gid 59000 kakite
  useradd --uid 59000 --gid 59000 --no-create-home --home-dir /workspace/home --shell /bin/bash kakite
fi
mkdir -p /workspace/project /workspace/home /workspace/cache
chown kakite:kakite /workspace/project /workspace/home
chmod 1777 /workspace/cache
