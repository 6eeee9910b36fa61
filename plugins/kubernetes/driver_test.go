package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

// connected returns a driver of a cluster. No image is there, so no Pod comes to run.
func connected(t *testing.T, s *kubetest.Server, more map[string]any) *driver {
	t.Helper()
	settings := map[string]any{"kubeconfig": s.Kubeconfig()}
	maps.Copy(settings, more)
	d := &driver{}
	if err := d.Configure(t.Context(), sandbox.Config{Settings: settings, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return d
}

// wanted is a container with a copied file and a copied folder.
func wanted(t *testing.T, key string) sandbox.Container {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "supervisor"), counted(2*maxMap+10), 0o600), os.Mkdir(filepath.Join(dir, "bin"), 0o700),
		os.Symlink("/.flynn-sandboxd", filepath.Join(dir, "bin", "it's a name")))
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Container{
		Key: key, Name: "flynn-box-" + key, Image: "kubetest.invalid/none", Entrypoint: []string{"/.flynn-sandboxd", "$(POD_IP)"}, Network: sandbox.NetworkNone,
		MemoryBytes: 64 << 20, CPUs: 0.5, PidsLimit: 64, BestEffort: true, Identity: []byte("the secret"), Hosts: []string{"db:127.0.0.1", "six:::1", "db2:127.0.0.1"},
		Labels: map[string]string{sandbox.LabelInstance: "one", sandbox.LabelKey: key, "odd": "a=b,\"c\" d\n", labelExpires: "2030-01-01T00:00:00Z"},
		Mounts: []sandbox.Mount{
			{Kind: sandbox.Copy, Source: filepath.Join(dir, "supervisor"), Target: "/.flynn-sandboxd", ReadOnly: true},
			{Kind: sandbox.Disk, Target: "/workspace", Bytes: 1 << 30}, {Kind: sandbox.Disk, Target: "/data"},
			{Kind: sandbox.Copy, Source: filepath.Join(dir, "bin"), Target: "/.flynn/bin", ReadOnly: true},
			{Kind: sandbox.Memory, Target: "/held", Bytes: 1 << 20},
		},
	}
}

// counted is text in which no two parts are the same.
func counted(size int) (text []byte) {
	for i := 0; len(text) < size; i++ {
		text = fmt.Append(text, i, " ")
	}
	return text[:size]
}

func list(t *testing.T, d *driver, instance string) []sandbox.Owned {
	t.Helper()
	all, err := d.List(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLife: what is made is found by another process, by labels alone, and nothing is left of it but what its instance shares.
func TestLife(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	c := wanted(t, "k1")
	id, err := d.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	d = connected(t, s, nil)
	if again, err := d.Create(t.Context(), c); err != nil || again != id {
		t.Errorf("one key made %s and %s (%v)", id, again, err)
	}
	all := list(t, d, "one")
	if len(all) != 1 || all[0].State != "created" || all[0].Name != c.Name || all[0].Image != c.Image || !maps.Equal(all[0].Labels, c.Labels) || all[0].Created.IsZero() {
		t.Errorf("listed %+v", all)
	}
	for _, instance := range []string{"", "two", "one*", "o'ne", strings.Repeat("x", 1000)} {
		if all := list(t, d, instance); len(all) != 0 {
			t.Errorf("instance %.20q has %+v", instance, all)
		}
	}
	for range 2 {
		if err := d.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if state := list(t, d, "one")[0].State; state != "running" {
		t.Errorf("started, it is %s", state)
	}
	_, err = d.Endpoint(t.Context(), id)
	if !errors.Is(err, sandbox.ErrNoImage) || !strings.Contains(err.Error(), "kubetest.invalid/none") || !strings.Contains(err.Error(), "registry") {
		t.Errorf("an image that is not there: %v", err)
	}
	other, err := d.Create(t.Context(), wanted(t, "k2"))
	if err != nil || other == id {
		t.Fatalf("%s (%v)", other, err)
	}
	if n := len(s.Names("configmaps")); n != 5 { // three with the file, one with the script, and the owner
		t.Errorf("two Pods with the same files have %q", s.Names("configmaps"))
	}
	for _, name := range []string{id, c.Name, id, "nobody", "k1"} {
		if err := d.Remove(t.Context(), name); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if pods, secrets := s.Names("pods"), s.Names("secrets"); !slices.Equal(pods, []string{other}) || !slices.Equal(secrets, []string{other}) {
		t.Errorf("left: %q, %q", pods, secrets)
	}
	if err := d.Remove(t.Context(), wanted(t, "k2").Name); err != nil || len(s.Names("pods")) != 0 {
		t.Errorf("removed by its name: %v", err)
	}
}

// TestOwner: who deletes the ConfigMap of an instance deletes all that it has.
func TestOwner(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	for _, instance := range []string{"one", "two"} {
		c := wanted(t, "k"+instance)
		c.Labels[sandbox.LabelInstance] = instance
		if _, err := d.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.api.configMaps(kubetest.Namespace).Delete(t.Context(), ownerName("one"), meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"pods", "secrets", "networkpolicies"} {
		if names := s.Names(resource); len(names) != 1 {
			t.Errorf("%s: %q", resource, names)
		}
	}
	if len(list(t, d, "two")) != 1 || len(s.Names("configmaps")) != 5 {
		t.Errorf("instance two lost something: %q", s.Names("configmaps"))
	}
}

// TestOldCopiesGo: ConfigMaps that no Pod refers to are removed, unless they were used a short while ago.
func TestOldCopiesGo(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	make := func(key, content string) string {
		c := wanted(t, key)
		if err := os.WriteFile(c.Mounts[0].Source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := d.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	has := func() int { return len(s.Names("configmaps")) - 1 }
	first := make("k1", "old")
	age(t, d)
	make("k2", "new")
	if has() != 4 {
		t.Errorf("while a Pod refers to it: %q", s.Names("configmaps"))
	}
	if err := d.Remove(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	make("k3", "newer")
	if has() != 4 {
		t.Errorf("what was old and without a Pod is there: %q", s.Names("configmaps"))
	}
	make("k4", "old")
	if has() != 6 {
		t.Errorf("it is not made again: %q", s.Names("configmaps"))
	}
}

// age makes all ConfigMaps look as if they had not been used for two hours.
func age(t *testing.T, d *driver) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, noteUsed, time.Now().Add(-2*time.Hour).UTC().Format(time.RFC3339))
	all, err := d.listMaps(t.Context())
	for name := range all {
		if err == nil {
			_, err = d.api.configMaps(kubetest.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, meta.PatchOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestInstancesGo: all that an instance has goes when it was not used for long and has no Pod, as after a self-test.
func TestInstancesGo(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	make := func(instance, key string) string {
		c := wanted(t, key)
		c.Labels[sandbox.LabelInstance] = instance
		id, err := d.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	make("with a Pod", "k1")
	if err := d.Remove(t.Context(), make("without", "k2")); err != nil {
		t.Fatal(err)
	}
	make("one", "k3")
	if n := len(s.Names("networkpolicies")); n != 3 {
		t.Errorf("after a short while there are %d policies", n)
	}
	age(t, d)
	make("one", "k4")
	want := []string{policyName("with a Pod", sandbox.NetworkNone), policyName("one", sandbox.NetworkNone)}
	slices.Sort(want)
	if got := s.Names("networkpolicies"); !slices.Equal(got, want) || len(s.Names("configmaps")) != 10 {
		t.Errorf("left: %q, %q", got, s.Names("configmaps"))
	}
}

// TestPolicyIsPutRight: a NetworkPolicy that somebody has changed is put right before the next Pod.
func TestPolicyIsPutRight(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, map[string]any{"host_cidrs": []any{"10.0.0.0/8"}})
	for i, network := range []string{sandbox.NetworkNone, sandbox.NetworkBridge} {
		make := func(key string) {
			c := wanted(t, key)
			c.Network = network
			if _, err := d.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		make(fmt.Sprint("a", i))
		policies := d.api.networkPolicies(kubetest.Namespace)
		p, err := policies.Get(t.Context(), policyName("one", network), meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if (len(p.Spec.Egress) == 0) != (network == sandbox.NetworkNone) || len(p.Spec.Ingress[0].From) != 1 || p.Spec.Ingress[0].Ports[0].Port.IntValue() != 7443 {
			t.Errorf("network %s: %+v", network, p.Spec)
		}
		right := p.DeepCopy()
		p.Spec.PolicyTypes, p.Spec.Ingress = nil, nil
		if _, err := policies.Update(t.Context(), p, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		make(fmt.Sprint("b", i))
		if p, err = policies.Get(t.Context(), p.Name, meta.GetOptions{}); err != nil || !equality.Semantic.DeepEqual(p.Spec, right.Spec) {
			t.Errorf("network %s: %+v (%v)", network, p.Spec, err)
		}
	}
}

// TestDeadNode: a Pod whose node does not end it is removed by force.
func TestDeadNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the node")
	}
	t.Parallel()
	s := kubetest.New(t)
	d := connected(t, s, nil)
	id, err := d.Create(t.Context(), wanted(t, "k"))
	if err == nil {
		err = d.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.NodeDies()
	began := time.Now()
	if err := d.Remove(t.Context(), id); err != nil || time.Since(began) < forceAfter || len(s.Names("pods")) > 0 {
		t.Errorf("after %v: %v, left %q", time.Since(began), err, s.Names("pods"))
	}
}

// TestUnschedulable: a Pod that no node takes is an error with the scheduler's words before the host's patience ends.
func TestUnschedulable(t *testing.T) {
	d := connected(t, kubetest.New(t), nil)
	c := wanted(t, "k")
	c.CPUs = 1000
	id, err := d.Create(t.Context(), c)
	if err == nil {
		err = d.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sayWhy+300*time.Millisecond)
	defer cancel()
	if _, err := d.Endpoint(ctx, id); err == nil || !strings.Contains(err.Error(), "Insufficient cpu") || !strings.Contains(err.Error(), "cpu_request") {
		t.Error(err)
	}
	if err := d.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// TestRefused: what cannot be made is refused before anything is.
func TestRefused(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, map[string]any{"pod_pids_limit": 100})
	for name, spoil := range map[string]func(*sandbox.Container){
		"fewer processes": func(c *sandbox.Container) { c.BestEffort = false },
		"no memory limit": func(c *sandbox.Container) { c.MemoryBytes = 0 },
		"no CPU limit":    func(c *sandbox.Container) { c.CPUs = 0 },
		"a bind":          func(c *sandbox.Container) { c.Mounts[1] = sandbox.Mount{Source: "/etc", Target: "/x"} },
		"the root":        func(c *sandbox.Container) { c.Mounts[1].Target = "/" },
		"a path":          func(c *sandbox.Container) { c.Mounts[1].Target = "/a/../b" },
		"a host":          func(c *sandbox.Container) { c.Hosts = []string{"db"} },
	} {
		c := wanted(t, "k")
		spoil(&c)
		if _, err := d.Create(t.Context(), c); !errors.Is(err, sandbox.ErrCannotHold) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := append(s.Names("pods"), s.Names("configmaps")...); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	for _, v := range append(rude.IDs(), rude.Value{Text: "../configmaps/x"}, rude.Value{}) {
		id := v.Text
		if validName.MatchString(id) {
			continue
		}
		_, err := d.Endpoint(t.Context(), id)
		if err == nil || d.Start(t.Context(), id) == nil || d.Remove(t.Context(), id) == nil {
			t.Errorf("id %.40q is accepted", id)
		}
	}
}
