package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/sdk/need"
)

// hinder makes a launcher that is told so start as if on an old kernel.
func hinder() error {
	if slices.Contains(os.Args, "old kernel") {
		return oldKernel()
	}
	return nil
}

// oldKernel makes the calls of Landlock unknown to this thread, as they are to a kernel that was built without it.
func oldKernel() error {
	runtime.LockOSThread()
	const first, last = 444, 446 // landlock_create_ruleset to landlock_restrict_self, everywhere
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: first, Jf: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: last, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// TestKernelWithoutLandlock has plugins run where it is not needed, with what is missing said, and not where it is.
func TestKernelWithoutLandlock(t *testing.T) {
	t.Parallel()
	if why := jail.FindNamespaces().Why; why != "" {
		need.Part(t, "namespaces", errors.New(why))
	}
	launcher := append(testLauncher(t), "old kernel")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := makePack(t, "spy", packOptions{more: spyManifest})
	s := startContained(t, map[string]string{"actor": dir}, Containment{Launcher: launcher, Secret: []string{secret}})
	if got := spied(t, s, map[string]any{"read": []any{secret}}); !strings.Contains(got["read "+secret], "no such file") {
		t.Errorf("its view of files does without Landlock, and it reads: %q", got["read "+secret])
	}
	missing := []string{jail.MeasureFiles, jail.MeasureNetwork, jail.MeasureProcesses} // of its view, the ways to what it holds can still be listed
	for _, m := range s.Containment("spy") {
		switch {
		case slices.Contains(missing, m.Name):
			if m.On || !strings.Contains(m.Detail, "this kernel has no Landlock") {
				t.Errorf("missing, and it says %+v", m)
			}
		case m.Name != jail.MeasureMemory && !m.On: // the manifest asks for no limit of memory
			t.Errorf("it needs no Landlock: %+v", m)
		}
	}

	strict := startContained(t, map[string]string{"actor": dir}, Containment{Launcher: launcher, Required: true, Secret: []string{secret}})
	strict.add(Instance{Name: "spy", Plugin: "actor"}, &listener{})
	const want = `cannot be restricted, and [plugins] containment = "required": this kernel has no Landlock`
	if got := strict.awaitThat("a refusal", func(st Status) bool { return st.LastError != "" }); got.PID != 0 || !strings.Contains(got.LastError, want) {
		t.Errorf("it says %+v, want %s", got, want)
	}
}
