#!/usr/bin/env bash
# From nothing to a policy that decides in a running Flynn, is replayed over what it has decided, and is swapped: each step with its
# time. Needs what the README's quick start needs, and the language's compiler. No key, no network.
#
#   examples/policies/run.sh [c|go|rust|assemblyscript|rego]
set -euo pipefail
language=${1:-c}
case $language in
  rust) suffix=rs ;;
  assemblyscript) suffix=ts ;;
  *) suffix=$language ;;
esac
root=$(cd "$(dirname "$0")/../.." && pwd)
site=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$site"' EXIT

# step NAME COMMAND... runs a step, prints its time and keeps what it prints in $site/said.
step() {
  local name=$1 began=$EPOCHREALTIME
  shift
  if ! "$@" >"$site/said" 2>&1; then
    printf 'failed: %s\n' "$name"
    cat "$site/said"
    exit 1
  fi
  printf '%8.3f s  %s\n' "$(bc_ "$EPOCHREALTIME - $began")" "$name"
}
bc_() { awk "BEGIN { print $1 }"; }
# within COMMAND... repeats a command until it succeeds.
within() {
  local end=$((SECONDS + 120))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.02
  done
}
in_force() { flynn policy list --json >"$site/list" 2>&1 && grep -q "\"file\": \"$1\"" "$site/list"; }
refused() { flynn policy list 2>&1 | grep -q stale; }
sum() { sha256sum "$1" | cut -d' ' -f1; }
talk() { printf 'hello\n%.0s' $(seq "$1") | flynn chat; }

(cd "$root" && go build -o "$site/bin/" ./cmd/flynn $([ "$language" = rego ] && echo ./cmd/flynn-rego))
PATH=$site/bin:$PATH
cd "$site"
port=$((20000 + RANDOM % 12000))
cat >flynn.toml <<TOML
[agent_configs.helper]
system_prompt = "You help everybody."

[agent_configs.coder]
system_prompt = "You help the owner to write programs."

[routing]
default_agent = "helper"

[sandbox]
enabled = false

[gateway]
listen = "127.0.0.1:$port"

[store]
dir = "store"

[[policies]]
name  = "mine"
path  = "mine/policy.wasm"
kinds = ["route"]
data  = { owner_agent = "coder" }
# The machine may have other work.
limits = { wall = "10s" }
TOML

echo "a policy in $language:"
whole=$EPOCHREALTIME
step "flynn policy dev new" flynn policy dev new mine --lang "$language"
step "flynn policy dev build" flynn policy dev build mine
step "flynn policy dev test" flynn policy dev test mine
flynn serve >serve.log 2>&1 &
server=$!
first=$(sum mine/policy.wasm)
step "it is in force in a running host" within in_force "$first"
printf '%8.3f s  from new to live\n\n' "$(bc_ "$EPOCHREALTIME - $whole")"

step "20 messages are routed by it" talk 20

# The next version sends members to the coder, and owners no more.
cp -r mine next
sed -i 's/"owner"/"member"/' "next/policy.$suffix"
step "the next version is built" flynn policy dev build next
step "flynn policy replay --candidate" flynn policy replay --candidate next/policy.wasm --policy mine --since 1h
cat said
echo

cp next/policy.wasm mine/policy.new && mv mine/policy.new mine/policy.wasm
step "its cases keep it out, and the old one decides" within refused
flynn policy list
echo

sed -i 's/role = "owner"/role = "member"/; s/the owner reaches/a member reaches/' next/cases/*.toml
step "with the right cases it passes" flynn policy dev test next
cp next/cases/*.toml mine/cases/
cp next/policy.wasm mine/policy.new && mv mine/policy.new mine/policy.wasm
step "it is in force, without a restart" within in_force "$(sum next/policy.wasm)"
flynn policy history mine
step "flynn policy rollback" flynn policy rollback mine
step "the one before is in force" within in_force "$first"
