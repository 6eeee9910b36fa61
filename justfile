# The recipes are one line each; what they do stands in CONTRIBUTING.md.

export GOFLAGS := "-buildvcs=false -trimpath"

# the recipes leave out nothing because it takes long, as a plain go test does
export FLYNN_TEST_REQUIRE := env_var_or_default("FLYNN_TEST_REQUIRE", "") + ",long"

# everything that CI runs
test: check race

# static checks
check: vet lint

# of what the tests are compiled from, so that it is compiled once
vet:
    GOFLAGS="$GOFLAGS -race {{ unraced }}" go vet ./...

# what else a compiler does not see, and the format
lint:
    lint=$(CGO_ENABLED=0 go tool -modfile=tools.mod -n staticcheck) && GOFLAGS="$GOFLAGS -race {{ unraced }}" $lint ./... && test -z "$(gofmt -l .ci cmd examples host plugins policies sdk)"

# does it compile on a Mac
mac arch="arm64":
    go run .ci/mac.go {{ arch }}

# all tests, with the race detector; the longest begin first, and since they wait a lot, two packages, and two tests of each, more at once than cores
race:
    FLYNN_TEST_UNRACED="{{ unraced }}" GORACE=atexit_sleep_ms=10 go test -race {{ unraced }} -vet=off -p $(({{ num_cpus() }} + 2)) -parallel $(({{ num_cpus() }} + 2)) -timeout 40m {{ longest }} $(go list ./...)

# Flags for what the tests are compiled from, quoted as in GOFLAGS. Not for the detector are what compresses, what was made from C, and what rewrites Wasm and
# makes machine code of it, in one goroutine: it sees nothing there, and takes most of its time. Nor what reads a terminal: a busy machine has bubbletea close it
# half a second after it was told to stop, whether or not it has. No other package may be left out: the linker keeps one copy of each generic function, and if
# that is one which the detector does not see, such as a Load of sync/atomic, it reports races that are none. What is large and runs little is compiled without
# inlining, which takes less time. The last one is ours: each operation of the API makes its own copy of a long generic function.
unraced := replace_regex(hot, "(\\S+)", "'-gcflags=$1=-race=false'") + " " + replace_regex(large, "(\\S+)", "'-gcflags=$1=-l'") + " '-gcflags=github.com/flynnhost/flynn/host/gateway/rest=-l'"
hot := "compress/flate modernc.org/sqlite/lib modernc.org/libc modernc.org/memory " + wazevo + "/ssa " + wazevo + "/frontend " + wazevo + "/backend/... " + meter + " " + reader
large := "github.com/openai/openai-go/v3/... github.com/anthropics/anthropic-sdk-go/... k8s.io/... github.com/google/gnostic-models/... github.com/open-policy-agent/opa/... github.com/lestrrat-go/jwx/v3/... go.mau.fi/whatsmeow/proto/... github.com/slack-go/slack"
wazevo := "github.com/tetratelabs/wazero/internal/engine/wazevo"
meter := "github.com/tetratelabs/wazero/internal/wasm/binary github.com/tetratelabs/wazero/internal/leb128 github.com/flynnhost/flynn/host/policy/meter/..."
reader := "github.com/muesli/cancelreader github.com/charmbracelet/ultraviolet"
longest := "./cmd/flynn-release ./host/sandbox ./host/internal/e2e/livetest ./host/gateway ./host/policy ./host ./cmd/flynn ./host/plugin ./host/plugin/conform ./host/sandbox/selftest ./host/policy/author ./host/agent ./host/policy/fuzz ./host/sandbox/fleet ./host/internal/bench/fanin ./host/internal/e2e/attack ./host/sandbox/native ./host/internal/e2e/crashtest"

# build the host, the sandbox supervisor and the first-party plugins
build:
    CGO_ENABLED=0 go build -trimpath -tags {{ lean }} -ldflags="-s -w" -o bin/ ./cmd/... && for p in plugins/*; do CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o $p/bin/ ./$p || exit 1; done

# without what calls methods by their names, text/template above all: the linker then leaves out those that nothing calls
lean := "urfave_cli_no_template,grpcnotrace"

# while messages flow, kill one of two hosts on one database a thousand times, and have all else go wrong that they meet; with -shared both have the channel. `just race` does it some times
cluster kills="1000" faults="100" *flags="":
    CLUSTER_KILLS={{ kills }} CLUSTER_FAULTS={{ faults }} go test ./host/internal/e2e/crashtest -run TestCluster -count 1 -timeout 600m -v {{ flags }}

# kill the host a thousand times while messages flow; `just race` does it some times
crash kills="1000":
    go test ./host/internal/e2e/crashtest -run TestCrash -kills {{ kills }} -count 1 -timeout 90m -v

# kill one of two hosts on one engine in the middle of what it does; `just race` does it some times
chaos rounds="200":
    go test ./host/sandbox -run TestChaos -chaos {{ rounds }} -count 1 -timeout 90m -v

# drive the real program at random with odd input for a while; `just race` does it for some rounds
explore for="1h":
    go test ./host/internal/e2e/explore -run TestExplore -for {{ for }} -count 1 -timeout 25h -v

# two people use the console in three pages at random, while the host restarts and networks go; `just race` does a little of it
pages steps="1000":
    go test ./host -run TestPagesCatchUp -pages-steps {{ steps }} -count 1 -timeout 10h -v

# leave a thousand calls to sandboxes at random points; `just race` leaves some
aborts count="1000":
    go test ./host/sandbox -run TestAborts -aborts {{ count }} -count 1 -timeout 90m -v

# the tests of plugins/kubernetes on a Kubernetes of one node, as root, with the engine at DOCKER_HOST
kube-test:
    #!/usr/bin/env bash
    set -euo pipefail
    eval "$(.ci/kube start)"
    trap '.ci/kube stop' EXIT
    FLYNN_TEST_REQUIRE=docker go test ./host/sandbox -run 'TestKubernetes' -count 1 -timeout 40m -v

# examples/cluster/kubernetes on a Kubernetes of one node, as root, with the image of a release
kube-hosts image:
    #!/usr/bin/env bash
    set -euo pipefail
    eval "$(.ci/kube start)"
    trap '.ci/kube stop' EXIT
    .ci/kube-hosts {{ image }}

# build the Dockerfile of examples/subagent and have the programs in it answer, which takes minutes
subagent:
    FLYNN_TEST_REQUIRE=docker,debian,node,cli-agents,subagent-image go test ./host -run TestSubagentImage -count 1 -timeout 20m -v

# benchmarks of one area (policy, sandbox, route, plugin, internal/bench/turnbench, ...), or of all
bench what="":
    go test -run '^$' -bench . -timeout 90m ./host/{{ if what == "" { "..." } else { what + "/..." } }}

# the pictures of docs/console.md, by the test of an owner's day, and those of previews, which need an engine
pictures:
    FLYNN_TEST_SHOTS={{ justfile_directory() }}/docs/pictures/console go test ./host/internal/e2e/livetest -run TestADayOfTheOwner -count 1 -v
    FLYNN_TEST_SHOTS={{ justfile_directory() }}/docs/pictures/console go test ./host -run TestThePreviewsRoom -count 1 -v

# protobuf code, C header
generate:
    cd sdk/proto && go tool -modfile=../../tools.mod buf generate && go generate ../policy/...

# a private Docker engine for the tests, as root: eval "$(just engine start)"
engine what:
    .ci/engine {{ what }}

# a private Kubernetes of one node for the tests, as root: eval "$(just kube)"
kube *what="start":
    .ci/kube {{ what }}

# the files of a release such as v1.2.3, in dist/; without a version, of the commit's tag
release version="" *flags="":
    go run ./cmd/flynn-release {{ if version == "" { "" } else { "-version " + version } }} {{ flags }}
