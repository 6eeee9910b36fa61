package main

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2029, 12, 31, 12, 0, 0, 0, time.UTC)

// TestPod compares the Pods that are made with testdata.
func TestPod(t *testing.T) {
	for name, c := range map[string]struct {
		settings settings
		change   func(*sandbox.Container)
	}{
		"plain": {settings{DiskMiB: 100}, func(*sandbox.Container) {}},
		"everything": {
			settings{
				DiskMiB: 100, InitImage: "busybox:1", NodeSelector: map[string]string{"pool": "sandboxes"}, ImagePullSecrets: []string{"pull"}, UserNamespaces: true,
				CPURequest: 0.1, Runtimes: []string{"gvisor"},
			},
			func(c *sandbox.Container) { c.Network, c.Runtime = sandbox.NetworkBridge, "gvisor" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			box := wanted(t, "k1")
			c.change(&box)
			cs, err := readCopies("one", box.Mounts)
			if err != nil {
				t.Fatal(err)
			}
			pod, err := (&driver{settings: c.settings}).pod(box, cs, noon)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(pod, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), "the secret") {
				t.Error("the Pod has the identity")
			}
			golden := filepath.Join("testdata", name+".json")
			if *update {
				err = os.WriteFile(golden, append(got, '\n'), 0o644)
			}
			want, failed := os.ReadFile(golden)
			if err != nil || failed != nil || string(want) != string(got)+"\n" {
				t.Errorf("%v %v (-want +got):\n%s", err, failed, cmp.Diff(string(want), string(got)+"\n"))
			}
		})
	}
}

// TestNames: whatever a key and an instance are, names are those of Kubernetes, and differ.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, v := range rude.IDs() {
		for _, name := range []string{podName("i", v.Text), podName(v.Text, "k"), ownerName(v.Text), policyName(v.Text, "none")} {
			if !validDNS.MatchString(name) || len(name) > 63 {
				t.Errorf("%s: %q", v.Name, name)
			}
			if other, is := seen[name]; is {
				t.Errorf("%q and %q are both %s", other, v.Text, name)
			}
			seen[name] = v.Text
		}
	}
	if podName("a", "b") == podName("ab", "") {
		t.Error("instance and key run together")
	}
}

// TestEndpoint: what a Pod waits for, or why it waits for ever.
func TestEndpoint(t *testing.T) {
	waiting := func(reason string) func(*core.Pod) {
		return func(p *core.Pod) {
			p.Status.ContainerStatuses = []core.ContainerStatus{{Image: "i", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: "m"}}}}
		}
	}
	for name, c := range map[string]struct {
		change            func(*core.Pod)
		address, waits    string
		noImage, complete bool
	}{
		"not started": {change: func(p *core.Pod) { p.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: gate}} }, complete: true},
		"nothing yet": {change: func(*core.Pod) {}, waits: "kubectl describe pod"},
		"creating":    {change: waiting("ContainerCreating"), waits: "ContainerCreating"},
		"no image":    {change: waiting("ErrImagePull"), noImage: true},
		"backing off": {change: waiting("ImagePullBackOff"), noImage: true},
		"a bad name":  {change: waiting("InvalidImageName"), noImage: true},
		"never":       {change: waiting("ErrImageNeverPull"), noImage: true},
		"evicted":     {change: func(p *core.Pod) { p.Status.Phase, p.Status.Reason = core.PodFailed, "Evicted" }, complete: true},
		"running": {change: func(p *core.Pod) {
			p.Status.PodIP, p.Status.ContainerStatuses = "10.1.2.3", []core.ContainerStatus{{State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
		}, address: "10.1.2.3:7443"},
		"running on IPv6": {change: func(p *core.Pod) {
			p.Status.PodIP, p.Status.ContainerStatuses = "fd00::3", []core.ContainerStatus{{State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
		}, address: "[fd00::3]:7443"},
	} {
		p := &core.Pod{}
		c.change(p)
		address, waits, err := endpoint(p)
		if address != c.address || !strings.Contains(waits, c.waits) || (err != nil) != (c.noImage || c.complete) || c.noImage != strings.Contains(errText(err), sandbox.ErrNoImage.Error()) {
			t.Errorf("%s: %q, %q, %v", name, address, waits, err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestScript: the script of the init container makes any tree, and its names are only names.
func TestScript(t *testing.T) {
	sh, err := exec.LookPath("sh")
	need.Part(t, "sh", err)
	from, root := t.TempDir(), t.TempDir()
	names := []string{"a b", "it's", `"$(touch evil)"`, "`touch evil`", "-rf", "two\nlines", "*", `back\slash`, ";touch evil", "~", "é"}
	err = os.Mkdir(filepath.Join(from, "-d"), 0o700)
	for _, name := range names {
		err = joined(err, os.WriteFile(filepath.Join(from, "-d", name), []byte("content of "+name), 0o600), os.Symlink(name, filepath.Join(from, "to "+name)))
	}
	err = joined(err, os.WriteFile(filepath.Join(from, "large"), counted(3*maxMap/2), 0o600), os.WriteFile(filepath.Join(from, "empty"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cs, err := readCopies("one", []sandbox.Mount{{Kind: sandbox.Copy, Source: from, Target: "/x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{piecesFolder, copiesFolder} {
		err = joined(err, os.Mkdir(filepath.Join(root, folder), 0o700))
	}
	for _, m := range cs.maps {
		size := 0
		for name, text := range m.BinaryData {
			size += len(text)
			if name == cs.script {
				text = []byte(strings.NewReplacer(piecesFolder, root+piecesFolder, copiesFolder, root+copiesFolder).Replace(string(text)))
			}
			err = joined(err, os.WriteFile(filepath.Join(root, piecesFolder, name), text, 0o600))
		}
		if size > maxMap {
			t.Errorf("a ConfigMap of %d bytes", size)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sh, "-e", root+cs.command()[2]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("diff", "-r", "--no-dereference", from, filepath.Join(root, copiesFolder, "0")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := os.Stat(filepath.Join(root, copiesFolder, closed)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the closed folder is %v (%v)", info, err)
	}
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRole: role.yaml gives exactly the rights that are used.
func TestRole(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	make := func(c sandbox.Container) string {
		id, err := d.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := wanted(t, "k1")
	make(first)
	make(first)
	policies := d.api.networkPolicies(kubetest.Namespace)
	p, err := policies.Get(t.Context(), policyName("one", sandbox.NetworkNone), meta.GetOptions{})
	if err == nil {
		p.Spec.PolicyTypes = nil
		_, err = policies.Update(t.Context(), p, meta.UpdateOptions{})
	}
	err = joined(err, d.Remove(t.Context(), first.Name), os.WriteFile(first.Mounts[0].Source, []byte("other"), 0o600))
	age(t, d)
	first.Key = "k2"
	stale := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: podName("one", "k2")}}
	if _, failed := d.api.secrets(kubetest.Namespace).Create(t.Context(), stale, meta.CreateOptions{}); joined(err, failed) != nil {
		t.Fatal(err, failed)
	}
	err = d.Start(t.Context(), make(first))
	if _, failed := d.List(t.Context(), "one"); joined(err, failed) != nil {
		t.Fatal(err, failed)
	}
	secret, err := d.api.secrets(kubetest.Namespace).Get(t.Context(), stale.Name, meta.GetOptions{})
	if err != nil || string(secret.Data[identityKey]) != "the secret" {
		t.Errorf("the Secret of another Pod stays: %v", err)
	}
	text, err := os.ReadFile("role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	for line := range strings.Lines(string(text)) {
		if rule, is := strings.CutPrefix(strings.TrimSpace(line), "- {apiGroups: "); is {
			_, rule, _ = strings.Cut(rule, "resources: [")
			resource, verbs, _ := strings.Cut(rule, "], verbs: [")
			for verb := range strings.SplitSeq(strings.TrimSuffix(verbs, "]}"), ", ") {
				granted = append(granted, verb+" "+resource)
			}
		}
	}
	slices.Sort(granted)
	used := slices.Sorted(maps.Keys(s.Calls()))
	if diff := cmp.Diff(used, granted); diff != "" {
		t.Errorf("role.yaml (-used +granted):\n%s", diff)
	}
}
