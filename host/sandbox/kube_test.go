package sandbox_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// A session in a Pod: its workspace is the host's folder, calls are left at once, and nothing stays behind.
func TestKubernetesSandbox(t *testing.T) {
	c := newCluster(t)
	m, conf := sandboxtest.Engine(t).Manager(t, c.adjust(t))
	folder := home(t, conf.WorkspaceRoot, "s")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "brought"), []byte("from home\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s := get(t, m, "s", conf.Spec)
	if out := shell(t, s, "id -u; uname -n; pwd; cat brought; ulimit -n; ulimit -c"); out != "1000\nsandbox\n/workspace\nfrom home\n1024\n0\n" {
		t.Errorf("printed %q", out)
	}
	t.Logf("first command after %v", time.Since(began))
	in := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	if r, err := s.Exec(t.Context(), machine.Command{Script: "cat", Stdin: in, MaxOutput: 8 << 20}); err != nil || !bytes.Equal(r.Stdout, in) {
		t.Errorf("%d bytes came back (%v)", len(r.Stdout), err)
	}
	shell(t, s, "mkdir d; echo new >d/f; rm brought")
	if got := treeOf(t, folder); !strings.Contains(got, "d/f -rw-r--r-- new") || strings.Contains(got, "brought") {
		t.Errorf("at home: %q", got)
	}
	for _, script := range []string{"cat /.flynn-identity", "echo x >/.flynn-sandboxd", "ls /.flynn-closed", "echo x >/x", "cat /proc/1/environ", "ls /var/run/secrets"} {
		if r, err := s.Exec(t.Context(), machine.Command{Script: script}); err != nil || r.ExitCode == 0 {
			t.Errorf("%s: exit code %d, %.200q (%v)", script, r.ExitCode, r.Stdout, err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began = time.Now()
	_, _ = s.Exec(short, machine.Command{Script: "exec sleep 1234"})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a call was left after %v", took)
	}
	eventually(t, "its process ends", func() bool { return shell(t, s, "ps | grep -c 'sleep [1]234' || true") == "0\n" })
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if left := c.left(t, conf.Instance); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The API server is gone in the middle of a command, which goes on; only new sandboxes wait until it is back.
func TestKubernetesWithoutItsAPIServer(t *testing.T) {
	c := newCluster(t)
	m, conf := sandboxtest.Engine(t).Manager(t, c.adjust(t))
	s := get(t, m, "s", conf.Spec)
	done := make(chan string, 1)
	go func() {
		r, err := s.Exec(t.Context(), machine.Command{Script: "touch begun; sleep 2; echo went on"})
		done <- fmt.Sprint(string(r.Stdout), err)
	}()
	eventually(t, "the command runs", func() bool { return exists(home(t, conf.WorkspaceRoot, "s") + "/begun") })
	c.apiserver(t, false)
	if got := <-done; got != "went on\n<nil>" {
		t.Errorf("the command: %q", got)
	}
	if out := shell(t, s, "echo again"); out != "again\n" {
		t.Errorf("the next one: %q", out)
	}
	if _, err := m.Get(t.Context(), "new", "default", conf.Spec); err == nil || !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a new sandbox: %v", err)
	}
	c.apiserver(t, true)
	if out := shell(t, get(t, m, "new", conf.Spec), "echo new"); out != "new\n" {
		t.Errorf("a new sandbox after that: %q", out)
	}
}

// A waiting Pod serves a session, which finds its workspace there.
func TestKubernetesPool(t *testing.T) {
	c := newCluster(t)
	m, conf := sandboxtest.Engine(t).Manager(t, c.adjust(t), keepWarm(2))
	runManager(t, m)
	awaitReady(t, m, 2)
	folder := home(t, conf.WorkspaceRoot, "s")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "f"), []byte("mine\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if out := shell(t, get(t, m, "s", conf.Spec), "cat f; echo back >b"); out != "mine\n" || !strings.Contains(treeOf(t, folder), "b -rw-r--r-- back") {
		t.Errorf("printed %q, at home %q", out, treeOf(t, folder))
	}
	t.Logf("first command after %v", time.Since(began))
	if st := m.Stats(); st.Pool.Hits != 1 {
		t.Errorf("stats %+v", st)
	}
}

// A host that was killed has a successor, which finds the Pod and all that runs there.
func TestKubernetesOutlastsTheHost(t *testing.T) {
	c := newCluster(t)
	order := c.order(t)
	first := newHost(t, order)
	p := first.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
	first.do(hostCall{Do: "exec", Session: "s", Script: "echo kept >f"})
	before := c.left(t, order.Instance)
	first.kill()
	next := newHost(t, order)
	if next.first.Stats.Adopted != 1 {
		t.Fatalf("stats %+v", next.first.Stats)
	}
	if all := next.do(hostCall{Do: "processes", Session: "s"}).Processes; len(all) != 1 || all[0].ID != p.ID || !all[0].Running {
		t.Errorf("processes %+v", all)
	}
	if n := counted(t, next.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text); n == 0 {
		t.Error("no output is kept")
	}
	if text := next.do(hostCall{Do: "exec", Session: "s", Script: "cat f"}).Text; text != "kept\n" {
		t.Errorf("printed %q", text)
	}
	if after := c.left(t, order.Instance); !slices.Equal(before, after) {
		t.Errorf("Pods %q, before %q", after, before)
	}
	next.do(hostCall{Do: "destroy", Session: "s"})
	if left := c.left(t, order.Instance); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Two hosts share a cluster and an instance: neither takes what the other has.
func TestKubernetesOfTwoHosts(t *testing.T) {
	c := newCluster(t)
	order := c.order(t)
	one, two := newHost(t, order), newHost(t, order)
	one.do(hostCall{Do: "exec", Session: "a", Script: "echo a >f"})
	two.do(hostCall{Do: "exec", Session: "b", Script: "echo b >f"})
	one.do(hostCall{Do: "reconcile"})
	two.do(hostCall{Do: "reconcile"})
	for session, h := range map[message.WorkspaceKey]*remoteHost{"a": one, "b": two} {
		if text := h.do(hostCall{Do: "exec", Session: session, Script: "cat f"}).Text; text != string(session)+"\n" {
			t.Errorf("session %s: %q", session, text)
		}
		h.do(hostCall{Do: "end"})
	}
	if left := c.left(t, order.Instance); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Bridged commands and the allowlist's proxy work by the connection to the supervisor, and by copies of what containers elsewhere mount.
func TestKubernetesBridgesAndProxy(t *testing.T) {
	c := newCluster(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "you said ", r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	m, conf := sandboxtest.Engine(t).Manager(t, c.adjust(t), func(conf *sandbox.Config) {
		second := conf.Spec
		second.WorkspaceDir = "/elsewhere"
		conf.Spec.Bridges = []spec.Bridge{{Name: "said", Program: "/bin/echo", In: &second, Forms: []bridge.Form{{Args: []bridge.Arg{{Rest: true}}}}}}
		conf.SetNetwork(testNetwork{server.Listener.Addr().String()})
		conf.Roots = x509.NewCertPool()
		conf.Roots.AddCert(server.Certificate())
		conf.Secret = func(string) string { return ownersToken }
		conf.Spec.Network, conf.Spec.Allowlist = "allowlist", []string{"example.com"}
		conf.Spec.Credentials = []spec.Credential{{Host: "example.com", Header: "Authorization", Prefix: "Bearer ", Secret: "env OWNERS_TOKEN", Upgrade: true}}
	})
	s := get(t, m, "s", conf.Spec)
	if out := shell(t, s, "said '$(id)' b"); out != "$(id) b\n" {
		t.Errorf("the bridge printed %q", out)
	}
	if out := shell(t, s, "grep -c BEGIN.CERT $SSL_CERT_FILE; echo x 2>/dev/null >>$SSL_CERT_FILE || echo read-only"); out != "1\nread-only\n" {
		t.Errorf("the trusted certificates: %q", out)
	}
	if out := shell(t, s, "wget -q -O - http://example.com/"); !strings.Contains(out, "you said Bearer ***") {
		t.Errorf("the proxy printed %q", out)
	}
}

// The self-test proves the NetworkPolicy: it finds out that this cluster, as .ci/kube starts it too, enforces none.
func TestKubernetesNetworkIsProved(t *testing.T) {
	c := newCluster(t)
	conf := sandboxtest.Engine(t).Config(t)
	c.adjust(t)(&conf)
	try := func() selftest.Report {
		t.Helper()
		test := selftest.Config{Driver: conf.Driver, Dir: t.TempDir(), Spec: conf.Spec, Only: func(name string) bool { return strings.HasPrefix(name, "network/") }, Log: conf.Log}
		if err := selftest.FindPrograms(&test, conf.Log); err != nil {
			t.Fatal(err)
		}
		suite, err := selftest.New(test)
		if err != nil {
			t.Fatal(err)
		}
		r, err := suite.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, o := range try().Outcomes {
		if o.Name == "network/interfaces" && (o.Status != selftest.Fail || !strings.Contains(o.Detail, "connected to another sandbox")) {
			t.Errorf("without a policy: %+v", o)
		}
	}
	if c.server != nil { // it runs Pods on this machine's network
		return
	}
	deny := func(how string) {
		if out, err := exec.Command("../../.ci/kube", "deny", how).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	deny("on")
	defer deny("off")
	for _, o := range try().Outcomes {
		if o.Status != selftest.Pass {
			t.Errorf("with a policy: %+v", o)
		}
	}
}
