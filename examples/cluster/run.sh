#!/usr/bin/env bash
# Three hosts that share a Postgres database, on this machine: a host is killed in the middle of a turn and another answers, once; the
# database goes away and comes back. Then it is yours until Ctrl-C. Needs what the README's quick start needs, and Debian's postgresql. No key, no
# network: the hosts listen on 127.0.0.1, the database on a Unix socket.
#
#   examples/cluster/run.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
programs=$(find /usr/lib/postgresql/*/bin -name initdb -printf '%h\n' 2>/dev/null | sort -V | tail -1)
[ -n "$programs" ] || { echo "there is no Postgres on this machine: apt-get install postgresql" >&2; exit 1; }

site=$(mktemp -d)
db=$(mktemp -d /tmp/flynn-db.XXXX) # short, because it is in the path of a socket
as_user=()
if [ "$(id -u)" = 0 ]; then # as which Postgres refuses to run
  chown postgres: "$db"
  as_user=(setpriv --reuid postgres --regid postgres --clear-groups)
fi
declare -A process port

finish() {
  local name
  for name in "${!process[@]}"; do kill "${process[$name]}" 2>/dev/null || true; done
  for name in "${!process[@]}"; do wait "${process[$name]}" 2>/dev/null || true; done
  postgres stop -m immediate || true
  rm -rf "$site" "$db"
}
postgres() { (cd "$db" && "${as_user[@]}" "$programs/pg_ctl" -D "$db/data" -l "$db/log" -w "$@" >/dev/null 2>&1); }
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
on() { "$site/bin/flynn" --config "$site/$1.toml" "${@:2}"; }
# within COMMAND... repeats a command until it succeeds.
within() {
  local end=$((SECONDS + 60))
  until "$@"; do
    if [ $SECONDS -ge $end ]; then
      printf 'not within a minute: %s\n' "$*" >&2
      tail -n 20 "$site"/*.log >&2
      return 1
    fi
    sleep 0.1
  done
}
answers() { on "$1" status >/dev/null 2>&1; }
runs_turn() { on "$1" status --json 2>/dev/null | grep -q '"running": 1'; }
count() { on "$1" session show terminal:main:helper 2>/dev/null | grep -c "You said: $2" || true; }
has() { [ "$(count "$@")" = 1 ]; }
free_port() {
  local p
  while p=$((20000 + RANDOM % 12000)); (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do :; done
  echo "$p"
}
start() {
  "$site/bin/flynn" --config "$site/$1.toml" serve >>"$site/$1.log" 2>&1 &
  process[$1]=$!
  within answers "$1"
}
trap finish EXIT
trap 'exit 130' INT TERM

(cd "$root" && go build -o "$site/bin/" ./cmd/flynn)
say "A Postgres in $db"
(cd "$db" && "${as_user[@]}" "$programs/initdb" -D "$db/data" -A trust -U flynn -E UTF8 --locale=C.UTF-8 >/dev/null)
echo "unix_socket_directories = '$db'
listen_addresses = ''" >>"$db/data/postgresql.conf"
postgres start
"$programs/createdb" -h "$db" -U flynn flynn
export FLYNN_STORE="postgres://flynn@/flynn?host=$db"

say "Three hosts"
for name in a b c; do
  port[$name]=$(free_port)
  cat >"$site/$name.toml" <<TOML
[agent_configs.helper]
system_prompt = "You help everybody."
tool_profile  = "minimal"

[routing]
default_agent = "helper"

[sandbox]
enabled = false

[store]
dir     = "$name"
url_env = "FLYNN_STORE"

[cluster]
host = "$name"

[gateway]
listen     = "127.0.0.1:${port[$name]}"
token_file = "$name.token"
TOML
  start "$name"
done
on a cluster status

say "Host a is asked, and killed in the middle of its turn"
printf '!slow 5000 first\n' | on a chat >/dev/null 2>&1 &
asking=$!
within runs_turn a
kill -9 "${process[a]}"
began=$SECONDS
wait "${process[a]}" 2>/dev/null || true
unset 'process[a]'
kill "$asking" 2>/dev/null || true
wait "$asking" 2>/dev/null || true
within has b first
echo "another host has answered, once, about $((SECONDS - began)) s after the death (5 s of them are the answer's own):"
on b session show terminal:main:helper
on b cluster status

say "Postgres goes away for five seconds, and comes back"
postgres stop -m immediate
printf 'second\n' | on c chat --timeout 60s >/dev/null 2>&1 &
asking=$!
sleep 5
postgres start
wait "$asking" || true
within answers c
has c second || printf 'second\n' | on c chat >/dev/null
within has c second
echo "what was said meanwhile has its answer, once"

say "Host b is drained, and a is started again"
start a
on b cluster drain b
drained() { on a cluster status | grep -q '^b .*drained .*  0  *0  *0$'; }
within drained
on a cluster status
on a cluster drain --undo b
printf 'third\n' | on a chat
within has b third

if [ -t 0 ]; then
  say "Yours until Ctrl-C"
  for name in a b c; do
    echo "host $name, process ${process[$name]}: $(on "$name" open --print)"
  done
  echo "talk to it:          $site/bin/flynn --config $site/b.toml chat"
  echo "kill one:            kill -9 ${process[c]}"
  echo "look at the hosts:   $site/bin/flynn --config $site/a.toml cluster status"
  while sleep 1; do :; done
fi
