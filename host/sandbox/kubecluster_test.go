package sandbox_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
)

// cluster is a cluster of Kubernetes and the plugin that makes sandboxes there.
type cluster struct {
	Kubeconfig, Plugin string
	server             *kubetest.Server // nil: a real cluster
}

// newCluster returns the cluster of FLYNN_KUBE_DIR, see .ci/kube, or one of package kubetest.
func newCluster(t testing.TB) cluster {
	t.Helper()
	sandboxtest.Engine(t)
	c := cluster{Plugin: kubernetesPlugin(t)}
	if os.Getenv("FLYNN_KUBE_DIR") != "" {
		c.Kubeconfig = realCluster(t)
		return c
	}
	c.server = kubetest.New(t)
	c.Kubeconfig = c.server.Kubeconfig()
	return c
}

// realCluster prepares the real cluster as an operator does, and returns a kubeconfig with the rights of role.yaml alone.
func realCluster(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	do := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %.60q: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	kubectl, own := os.Getenv("FLYNN_KUBECTL"), filepath.Join(dir, "kubeconfig")
	do(kubectl, "apply", "-f", "../../plugins/kubernetes/role.yaml")
	importIntoCluster(t, sandboxtest.Engine(t))
	text, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err == nil {
		err = os.WriteFile(own, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	user := do(kubectl, "config", "view", "-o", "jsonpath={.contexts[0].context.user}")
	do(kubectl, "--kubeconfig", own, "config", "set-credentials", user, "--token", do(kubectl, "create", "token", "flynn", "-n", "flynn"))
	return own
}

// order is an instance on the cluster whose host can be started again and again.
func (c cluster) order(t testing.TB) hostOrder {
	_, order := restartable(t)
	order.Kubernetes = c
	return order
}

// apiserver starts or stops the API server alone.
func (c cluster) apiserver(t testing.TB, runs bool) {
	t.Helper()
	switch {
	case c.server == nil:
		do := map[bool]string{true: "start", false: "stop"}[runs]
		if out, err := exec.Command("../../.ci/kube", "apiserver", do).CombinedOutput(); err != nil {
			t.Fatalf("%s the API server: %v: %s", do, err, out)
		}
	case runs:
		c.server.Start()
	default:
		c.server.Stop()
	}
}

// kubernetesPlugin builds the plugin and returns its folder.
func kubernetesPlugin(t testing.TB) string {
	t.Helper()
	dir, source := t.TempDir(), "../../plugins/kubernetes"
	hosttest.BuildPlugin(t, "plugins/kubernetes", dir)
	var err error
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, failed := os.ReadFile(filepath.Join(source, name))
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// adjust changes a configuration to the cluster.
func (c cluster) adjust(t testing.TB) func(*sandbox.Config) {
	return func(conf *sandbox.Config) {
		t.Helper()
		if c.server == nil { // the podPidsLimit of .ci/kube-files, and memory for so many processes
			conf.Spec.PidsLimit, conf.Spec.MemoryBytes = 1024-driver.OwnTasks, 1<<30
		}
		dir, err := os.MkdirTemp("", "k") // t.TempDir is too long for sockets
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		all := &config.Config{
			Sandbox: config.Sandbox{Engine: "driver:kube"},
			Drivers: map[string]config.Driver{"kube": {Plugin: "kubernetes", Settings: map[string]any{
				"kubeconfig": c.Kubeconfig, "pod_pids_limit": conf.Spec.PidsLimit + driver.OwnTasks, "cpu_request": 0.01, "disk_mib": 64,
			}}},
		}
		all.Store.Dir, all.Plugins.Dir, all.Plugins.DevPaths = dir, filepath.Join(dir, "plugins"), map[string]string{"kubernetes": c.Plugin}
		d, err := drivers.Start(all, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		conf.Driver = d.Untested()
		if conf.Supervisor, err = program.FindSupervisorFor(conf.Driver, conf.Log); err != nil {
			t.Fatal(err)
		}
	}
}

// left are the Pods of an instance that are there.
func (c cluster) left(t testing.TB, instance string) (ids []string) {
	t.Helper()
	conf := sandboxtest.Engine(t).Config(t)
	c.adjust(t)(&conf)
	owned, err := conf.Driver.List(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		ids = append(ids, o.ID+" "+o.State)
	}
	return ids
}
