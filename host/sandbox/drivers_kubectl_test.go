package sandbox_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// needCluster skips without a cluster of .ci/kube.
func needCluster(b *testing.B) {
	if os.Getenv("KUBECONFIG") == "" || os.Getenv("FLYNN_KUBE_DIR") == "" {
		b.Skip(`there is no cluster: eval "$(.ci/kube start)"`)
	}
}

// onKubernetes has the plugin of that name. Its sandboxes share their node with everything else.
func onKubernetes(b *testing.B) column {
	needCluster(b)
	m, config := sandboxtest.Engine(b).Manager(b, keepWarm(0), newCluster(b).adjust(b), func(c *sandbox.Config) {
		c.Spec.MemoryBytes = sandboxtest.Spec().MemoryBytes // the node has room for all of them
	})
	return managed(b, m, config, podsMemory)
}

// kubectlAlone is Kubernetes' own way into a Pod, on the cluster of .ci/kube. All sessions use one Pod.
func kubectlAlone(b *testing.B) column {
	needCluster(b)
	kubectl, err := exec.LookPath(cmp.Or(os.Getenv("FLYNN_KUBECTL"), "kubectl"))
	if err != nil {
		b.Skip(err)
	}
	importIntoCluster(b, sandboxtest.Engine(b))
	do := func(args ...string) {
		b.Helper()
		if said, err := exec.Command(kubectl, args...).CombinedOutput(); err != nil {
			b.Fatalf("kubectl %q: %v: %s", args, err, said)
		}
	}
	name := fmt.Sprint("flynn-bench-", os.Getpid())
	b.Cleanup(func() { do("delete", "pod", name, "--ignore-not-found", "--grace-period=0", "--force") })
	pod := []string{"--image=docker.io/" + sandboxtest.Image, "--image-pull-policy=Never", "--restart=Never"}
	do(append(append([]string{"run", name}, pod...), "--command", "--", "sleep", "10000")...)
	do("wait", "--for=condition=Ready", "pod/"+name, "--timeout=2m")
	var made atomic.Int64
	return launched(programs("/", kubectl, "exec", "-i", name, "--", "sh", "-c"), false, func(ctx context.Context) error {
		args := append([]string{kubectl, "run", fmt.Sprint(name, "-", made.Add(1)), "--rm", "--stdin", "--quiet"}, pod...)
		return programs("/", append(args, "--command", "--", "sh", "-c")...).hello(ctx)
	})
}

// importIntoCluster gives the cluster's node the test's image.
func importIntoCluster(b testing.TB, h sandboxtest.Host) {
	b.Helper()
	saved, err := h.API.ImageSave(b.Context(), []string{sandboxtest.Image})
	if err != nil {
		b.Fatal(err)
	}
	defer saved.Close()
	path := filepath.Join(b.TempDir(), "image.tar")
	file, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(file, saved)
		err = cmp.Or(err, file.Close())
	}
	if err != nil {
		b.Fatal(err)
	}
	if said, err := exec.Command("../../.ci/kube", "import", path).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, said)
	}
}
