package plugin

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/sdk/need"
)

// sleepers are the processes that sleep with text in their environments.
func sleepers(t *testing.T, text string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.HasPrefix(command, []byte("sleep\x00")) && bytes.Contains(environ, []byte(text)) {
			out = append(out, pid)
		}
	}
	return out
}

// awaitSleepers waits until there are n of them.
func awaitSleepers(t *testing.T, text string, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // a poll, not a synchronisation
		found := sleepers(t, text)
		if len(found) == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sleepers, want %d", len(found), n)
		}
	}
}

func TestTheNextHostEndsWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	for name, launcher := range map[string]string{"plain": "", "held in": testLauncher(t)[0]} {
		t.Run(name, func(t *testing.T) {
			run := shortDir(t)
			runDir := filepath.Join(run, "r")
			bystanders := []string{runDir + "x/plugin-dir1", runDir, run + "/other/plugin-dir1"}
			for _, home := range bystanders {
				innocent := exec.Command("sleep", "1000")
				innocent.Env = []string{"HOME=" + home, "OTHER=" + runDir + "/plugin-dir1"}
				if err := innocent.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = innocent.Process.Kill()
					_ = innocent.Wait()
				})
			}
			pid := killedHost(t, "strays", run, launcher)
			awaitSleepers(t, "PLUGIN_UNIX_SOCKET_DIR="+runDir, 2)
			for deadline := time.Now().Add(patience); alive(pid); time.Sleep(time.Millisecond) { // a poll, not a synchronisation
				if time.Now().After(deadline) {
					t.Fatal("the plugin itself outlives its host")
				}
			}
			var log logBuffer
			release, err := claimRunDir(runDir, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			awaitSleepers(t, "PLUGIN_UNIX_SOCKET_DIR="+runDir, 0)
			awaitSleepers(t, runDir, len(bystanders))
			if !strings.Contains(log.String(), "plugins of a killed flynn\" count=2") {
				t.Errorf("log: %s", &log)
			}
			sweepGroups(run)
		})
	}
}

// A process that hides from the search by environments is found in its control group.
func TestAControlGroupKeepsWhatHides(t *testing.T) {
	needProcesses(t)
	run := shortDir(t)
	killedHost(t, "strays", run, testLauncher(t)[0])
	groups, err := jail.OpenGroups(memoryGroupName(filepath.Join(run, "r")))
	if err != nil {
		need.Part(t, "memory control group", err)
	}
	defer groups.Close()
	awaitSleepers(t, "PLUGIN_UNIX_SOCKET_DIR="+filepath.Join(run, "r"), 0)
	if left, err := os.ReadDir(groups.Dir); err != nil {
		t.Error(err)
	} else {
		for _, e := range left {
			if e.IsDir() {
				t.Errorf("group %s is left", e.Name())
			}
		}
	}
}

func TestEmptyGroupsOfDeadHostsAreRemoved(t *testing.T) {
	needProcesses(t)
	parent := shortDir(t)
	log := slog.New(slog.DiscardHandler)
	open := func(name string) (*jail.Groups, func()) {
		dir := filepath.Join(parent, name)
		release, err := claimRunDir(dir, log)
		if err != nil {
			t.Fatal(err)
		}
		g, err := jail.OpenGroups(memoryGroupName(dir))
		if err != nil {
			release()
			need.Part(t, "memory control group", err)
		}
		return g, release
	}
	dead, deadLock := open("flynn-dead")
	busy, busyLock := open("flynn-busy")
	living, livingLock := open("flynn-living")
	defer livingLock()
	defer living.Close()
	defer busy.Close()
	for _, g := range []*jail.Groups{dead, busy} {
		if _, err := g.Add("one", 64<<20); err != nil {
			t.Fatal(err)
		}
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Wait() }()
	defer func() { _ = sleeper.Process.Kill() }()
	inside, err := filepath.Glob(filepath.Join(busy.Dir, "one-*"))
	if err != nil || len(inside) != 1 {
		t.Fatalf("%v, %v", inside, err)
	}
	if err := os.WriteFile(filepath.Join(inside[0], "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	deadLock() // as the kernel does when a process is gone
	busyLock()
	next, release := open("flynn-next")
	defer release()
	defer next.Close()
	buryGroups(next, filepath.Join(parent, "flynn-next"))
	for g, stays := range map[*jail.Groups]bool{dead: false, busy: true, living: true, next: true} {
		if _, err := os.Stat(g.Dir); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %t", g.Dir, err, stays)
		}
	}
	if !alive(sleeper.Process.Pid) {
		t.Error("a process of another host was ended")
	}
}
