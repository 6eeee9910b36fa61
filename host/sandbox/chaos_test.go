package sandbox_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

var chaosRounds = flag.Int("chaos", 12, "how often one of two hosts is killed in the middle of something")

// possessions are what an instance has on an engine, as the engine itself tells.
func possessions(t testing.TB, h sandboxtest.Host, instance string) map[string][]string {
	t.Helper()
	owner := filters.NewArgs(filters.Arg("label", driver.LabelInstance+"="+instance))
	all := map[string][]string{}
	cs, err1 := h.API.ContainerList(t.Context(), container.ListOptions{All: true, Filters: owner})
	for _, c := range cs {
		all["container"] = append(all["container"], c.ID)
	}
	vs, err2 := h.API.VolumeList(t.Context(), volume.ListOptions{Filters: owner})
	for _, v := range vs.Volumes {
		all["volume"] = append(all["volume"], v.Name)
	}
	is, err3 := h.API.ImageList(t.Context(), image.ListOptions{All: true, Filters: owner})
	for _, i := range is {
		all["image"] = append(all["image"], i.ID)
	}
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

// furnish gives an instance one of everything besides containers, and takes it back with the test.
func furnish(t testing.TB, h sandboxtest.Host, instance string, expires time.Duration) {
	t.Helper()
	labels := map[string]string{driver.LabelInstance: instance, driver.LabelExpires: time.Now().Add(expires).UTC().Format(time.RFC3339)}
	name := "flynn-chaos-" + instance[max(0, len(instance)-13):]
	ref := "flynn-test/" + strings.ToLower(strings.ReplaceAll(name, ".", "-")) + ":latest"
	var changes []string
	for key, value := range labels {
		changes = append(changes, "LABEL "+key+"="+value)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		_, _ = h.API.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
		_ = h.Driver.RemoveVolume(ctx, name)
	})
	body, err := h.API.ImageImport(ctx, image.ImportSource{Source: strings.NewReader(strings.Repeat("\x00", 1024)), SourceName: "-"}, ref, image.ImportOptions{Changes: changes})
	if err == nil {
		_, err = fmt.Fscan(body, new(string))
		body.Close()
	}
	if err == nil {
		_, err = h.Driver.EnsureVolume(ctx, name, labels)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mischief is what the host does that is about to die.
func mischief(random *rand.Rand, round int) []hostCall {
	session := message.WorkspaceKey(fmt.Sprintf("round-%d", round))
	thing := fmt.Sprintf("flynn-passing-%d-%d", round, random.Uint32())
	all := [][]hostCall{
		{{Do: "exec", Session: session, Script: "true"}}, // a warm container, or a new one
		{{Do: "exec", Session: session, Script: "true"}, {Do: "exec", Session: message.WorkspaceKey(session + "-b"), Script: "true"}},
		{{Do: "exec", Session: session, Script: "setsid sleep 1000 & sleep 1000"}},
		{{Do: "start", Session: session, Script: counter}},
		{{Do: "start", Session: session, Script: "sleep 1000"}, {Do: "destroy", Session: session}},
		{{Do: "write", Session: session}},
		{{Do: "exec", Session: session, Script: "true"}, {Do: "destroy", Session: session}},
		{{Do: "volume", ID: thing}, {Do: "reconcile"}},
		{{Do: "reconcile"}},
		{{Do: "end"}},
	}
	return all[random.IntN(len(all))]
}

// Two hosts share an engine, and one of them is killed again and again in the middle of whatever it does. The other one
// keeps all that it has, and its command counts on; and once the killed one is back, nothing is left of its former
// life but what it owns. Its own command counts on as well. A third instance, which never comes back, is not touched.
func TestChaos(t *testing.T) {
	t.Parallel()
	h, victim := restartable(t)
	steadyConfig := h.Config(t)
	t.Cleanup(func() { clearInstance(t, h, steadyConfig.Instance) })
	steady := newHost(t, hostOrder{Instance: steadyConfig.Instance, Root: steadyConfig.WorkspaceRoot, Lease: time.Minute, Reconcile: true})
	furnish(t, h, steadyConfig.Instance, time.Hour)
	third := steadyConfig.Instance + "-third"
	furnish(t, h, third, -time.Hour)
	steady.do(hostCall{Do: "start", Session: "marker", Script: counter})
	its, lost := possessions(t, h, steadyConfig.Instance), possessions(t, h, third)
	for _, kind := range []string{"container", "volume", "image"} {
		if len(its[kind]) != 1 || len(lost[kind]) == 0 && kind != "container" {
			t.Fatalf("%ss before: %v, %v", kind, its[kind], lost[kind])
		}
	}
	count := 0
	untouched := func(when string) {
		t.Helper()
		if now := possessions(t, h, steadyConfig.Instance); fmt.Sprint(now) != fmt.Sprint(its) {
			t.Fatalf("%s the other host has %v, it had %v", when, now, its)
		}
		if now := possessions(t, h, third); fmt.Sprint(now) != fmt.Sprint(lost) {
			t.Fatalf("%s the third instance has %v, it had %v", when, now, lost)
		}
		eventually(t, when+" the marker counts on", func() bool {
			n := counted(t, steady.do(hostCall{Do: "output", Session: "marker", ID: "1"}).Text)
			on := n > count
			count = n
			return on
		})
	}
	victim.Pool = 1
	b := newHost(t, victim)
	own := b.do(hostCall{Do: "start", Session: "own", Script: counter}).Process
	ownCount := 0
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("%d rounds with seed %d", *chaosRounds, seed)
	late := 0
	for round := range *chaosRounds {
		calls := mischief(random, round)
		for _, c := range calls {
			b.tell(c)
		}
		select {
		case <-time.After(time.Duration(random.IntN(250_000)) * time.Microsecond):
		case <-t.Context().Done():
		}
		b.kill()
		when := fmt.Sprintf("round %d, killed in %v:", round, calls)
		steady.do(hostCall{Do: "reconcile"}) // of which the dead one's is none of the business
		untouched(when)
		b = newHost(t, victim)
		if b.first.Stats.Adopted < 1 {
			t.Fatalf("%s its own command is lost: %+v", when, b.first.Stats)
		}
		n := counted(t, b.do(hostCall{Do: "output", Session: "own", ID: own.ID}).Text)
		if n <= ownCount {
			t.Fatalf("%s its own command stands at %d", when, n)
		}
		ownCount = n
		if left := strays(t, h, b, victim); len(left) > 0 {
			late++
			t.Logf("%s %v is there after the return", when, left)
			eventually(t, when+" nothing is left that it does not own", func() bool { return len(strays(t, h, b, victim)) == 0 })
		}
		for _, s := range []string{"", "-b"} { // what it adopted goes with the round
			b.do(hostCall{Do: "destroy", Session: message.WorkspaceKey(fmt.Sprintf("round-%d%s", round, s))})
		}
		untouched(when)
	}
	t.Logf("counters stand at %d and %d; %d times something was left for the second look", count, ownCount, late)
	b.do(hostCall{Do: "destroy", Session: "own"})
	b.do(hostCall{Do: "end"})
	_ = b.cmd.Wait()
	steady.do(hostCall{Do: "destroy", Session: "marker"})
	steady.do(hostCall{Do: "end"})
	if left := leftFiles(t, victim.Root); len(left) != 0 {
		t.Errorf("files left at the end: %v", left)
	}
}

// strays are what the engine and the folder have of an instance that its host does not own.
func strays(t testing.TB, h sandboxtest.Host, host *remoteHost, order hostOrder) []string {
	t.Helper()
	listed := containers(t, h, order.Instance) // before the question, because the pool fills up meanwhile
	has := possessions(t, h, order.Instance)
	files := leftFiles(t, order.Root)
	held := host.do(hostCall{Do: "held"}).Held
	var left []string
	for _, c := range listed {
		if !slices.Contains(held, c.Labels[driver.LabelKey]) {
			left = append(left, "container "+c.Name)
		}
	}
	for _, kind := range []string{"volume", "image"} {
		for _, name := range has[kind] {
			left = append(left, kind+" "+name)
		}
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if key := name[strings.LastIndexByte(name, '-')+1:]; !strings.HasPrefix(name, "host-") && !slices.Contains(held, key) {
			left = append(left, "file "+name)
		}
	}
	return left
}
