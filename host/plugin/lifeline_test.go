//go:build unix

package plugin

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/plugin/jail"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// playHost is the test binary as a host with one plugin. It tells the plugin's pid at its first event and never ends.
func playHost(dir string) {
	pack, run, _ := strings.Cut(dir, ",")
	run, launcher, _ := strings.Cut(run, ",")
	c := Config{Dir: run + "/plugins", RunDir: run + "/r", DevPaths: map[string]string{"actor": pack}}
	if launcher != "" {
		c.Contain.Launcher = []string{launcher, "contain"}
	}
	h, err := New(c)
	if err != nil {
		panic(err)
	}
	ready := handlerFunc(func(ctx context.Context, c client) error {
		var first sync.Once
		return c.Receive(ctx, 32, func(_ channelkind.Event, done func(error)) {
			first.Do(func() { fmt.Println(h.Status()[0].PID) })
			done(nil)
		})
	})
	if err := h.Add(Instance{Name: "one", Plugin: "actor", Kind: channelkind.Name}, ready); err != nil {
		panic(err)
	}
	fmt.Println(h.Run(context.Background()))
}

func TestPluginDiesWithItsHost(t *testing.T) {
	for name, launcher := range map[string]string{"plain": "", "held in": testLauncher(t)[0]} {
		t.Run(name, func(t *testing.T) {
			run := shortDir(t)
			pid := killedHost(t, "good", run, launcher)
			begin := time.Now()
			for alive(pid) {
				if time.Since(begin) > patience {
					t.Fatalf("the plugin lives %v after its host was killed", patience)
				}
				time.Sleep(time.Millisecond) // a poll, not a synchronisation
			}
			t.Logf("gone after %v", time.Since(begin).Round(time.Millisecond))
			if launcher != "" {
				sweepGroups(run)
			}
		})
	}
}

// killedHost runs a host with one plugin until that is ready, kills the host, and returns the plugin's number.
func killedHost(t *testing.T, mode, run, launcher string) (pid int) {
	t.Helper()
	needProcesses(t)
	host := exec.Command(os.Args[0], "host:"+makePack(t, mode, packOptions{})+","+run+","+launcher)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil || !alive(pid) {
		t.Fatalf("no plugin: %q, %v", line, err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	return pid
}

// sweepGroups is what the next host does with the control groups of a killed one.
func sweepGroups(run string) {
	if g, err := jail.OpenGroups(memoryGroupName(run + "/r")); err == nil {
		g.Close()
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// TestLifelineAlone leaves out the parent-death signal of Linux: the plugin has to see the end of its standard input by itself.
func TestLifelineAlone(t *testing.T) {
	cmd := exec.Command(os.Args[0], "plugin:good")
	cmd.Env = []string{
		handshake.CookieKey + "=" + handshake.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir(),
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "1|1|unix|") {
		t.Errorf("handshake is %q, %v", line, err)
	}
	begin := time.Now()
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if took := time.Since(begin); took > patience {
		t.Errorf("the plugin took %v to end", took)
	}
	if err == nil {
		t.Error("a plugin that lost its host exits with success")
	}
}
