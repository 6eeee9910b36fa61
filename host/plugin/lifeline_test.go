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
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// playHost is the test binary as a host with one plugin. It tells the plugin's pid and never ends.
func playHost(dir string) {
	pack, run, _ := strings.Cut(dir, ",")
	h, err := New(Config{Dir: run + "/plugins", RunDir: run + "/r", DevPaths: map[string]string{"actor": pack}})
	if err != nil {
		panic(err)
	}
	ready := handlerFunc(func(ctx context.Context, c *Client) error {
		fmt.Println(h.Status()[0].PID)
		<-ctx.Done()
		return nil
	})
	if err := h.Add(Instance{Name: "one", Plugin: "actor", Kind: Channel}, ready); err != nil {
		panic(err)
	}
	fmt.Println(h.Run(context.Background()))
}

func TestPluginDiesWithItsHost(t *testing.T) {
	needProcesses(t)
	run, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	host := exec.Command(os.Args[0], "host:"+makePack(t, "good", packOptions{})+","+run)
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
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatalf("no plugin: %q, %v", line, err)
	}
	begin := time.Now()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	for alive(pid) {
		if time.Since(begin) > patience {
			t.Fatalf("the plugin lives %s after its host was killed", patience)
		}
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
	t.Logf("gone after %v", time.Since(begin).Round(time.Millisecond))
}

// alive tells whether a process exists and is not a zombie.
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
