#!/usr/bin/env bash
# Builds what the example needs, starts an IRC server on this machine if ngircd is installed and nothing listens there yet, and serves.
#
#   examples/team/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
export GOFLAGS=-buildvcs=false

go build -o bin/ ./cmd/flynn ./cmd/flynn-sandboxd
go build -o plugins/irc/bin/ ./plugins/irc
bin/flynn policy dev build policies/owner-only-shell

server=$(command -v ngircd || command -v /usr/sbin/ngircd || true)
if [ -n "$server" ] && ! (exec 3<>/dev/tcp/127.0.0.1/6667) 2>/dev/null; then
  "$server" --nodaemon --config "$PWD/examples/team/ngircd.conf" >/dev/null 2>&1 &
  irc=$!
  trap 'kill "$irc" 2>/dev/null || true; wait "$irc" || true' EXIT
fi
bin/flynn serve --config examples/team/flynn.toml
