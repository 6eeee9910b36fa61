package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/mcp/mcptest"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/tool"
)

// startReal runs the plugin with a server of its own.
func startReal(t *testing.T, settings map[string]any) *plugintest.ToolHost {
	t.Helper()
	h := plugintest.StartTools(t, &provider{}, plugintest.Config{
		Settings: settings, Permissions: []string{"media"}, Timeout: time.Minute,
	})
	h.WaitStatus(tool.StateReady)
	t.Cleanup(func() {
		if err := h.Shutdown(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the end: %v", err)
		}
	})
	return h
}

func TestRealEverything(t *testing.T) {
	program, _ := mcptest.Server(t, "server-everything")
	for name, settings := range map[string]func(t *testing.T) map[string]any{
		"stdio": func(*testing.T) map[string]any {
			return map[string]any{"command": "node", "args": []string{program, "stdio"}, "env": map[string]string{"ONLY": "this"}}
		},
		"http": func(t *testing.T) map[string]any {
			return map[string]any{"url": "http://" + serveHTTP(t, program) + "/mcp", "headers": map[string]string{"X-Flynn": "test"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			everything(t, settings(t), name == "stdio")
		})
	}
}

// everything is what the server that can do everything has to do.
func everything(t *testing.T, settings map[string]any, ours bool) {
	settings["roots"] = []string{"/srv/work"}
	h := startReal(t, settings)
	names := h.Names()
	for _, want := range []string{"echo", "get-sum", "get-tiny-image", "trigger-long-running-operation", "resources.list", "resources.read"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %q", want, names)
		}
	}
	if slices.Contains(names, "trigger-sampling-request") || slices.Contains(names, "trigger-elicitation-request") {
		t.Errorf("the server was told that it may ask: %q", names)
	}
	call := func(name string, args any) plugintest.Outcome {
		t.Helper()
		out, err := h.Call(name, args)
		if err != nil || out.IsError {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		return out
	}
	if out := call("get-sum", map[string]int{"a": 2, "b": 40}); !strings.Contains(out.Text, "42") {
		t.Errorf("the sum is %q", out.Text)
	}
	if out := call("get-structured-content", map[string]string{"location": "New York"}); !strings.Contains(string(out.Structured), "temperature") {
		t.Errorf("structured %s", out.Structured)
	}
	out := call("get-tiny-image", map[string]any{})
	if len(out.Media) != 1 {
		t.Fatalf("the image: %+v", out)
	}
	if m, body, _ := h.Services().Media(out.Media[0]); m.Type != "image/png" || !strings.HasPrefix(string(body), "\x89PNG") {
		t.Errorf("the image is %s of %d bytes", m.Type, len(body))
	}
	if out := call("trigger-long-running-operation", map[string]int{"duration": 1, "steps": 4}); len(out.Progress) == 0 {
		t.Errorf("no progress: %+v", out)
	}
	if out := call("resources.list", nil); !strings.Contains(out.Text, "://") || !strings.Contains(out.Text, "pattern ") {
		t.Errorf("resources: %.300q", out.Text)
	}
	if out, err := h.Call("get-sum", map[string]string{"a": "x"}); err != nil || !out.IsError {
		t.Errorf("arguments that do not fit: %+v, %v", out, err)
	}
	if ours {
		if out := call("get-env", nil); !strings.Contains(out.Text, `"ONLY": "this"`) || strings.Contains(out.Text, "FLYNN") {
			t.Errorf("the server's environment is %s", out.Text)
		}
	}
	cancelled(t, h)
}

// cancelled cancels a call that would take an hour, and sees that the server still works.
func cancelled(t *testing.T, h *plugintest.ToolHost) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := h.CallContext(ctx, "trigger-long-running-operation", map[string]int{"duration": 3600, "steps": 36000}, func(string) { cancel() })
	if err == nil {
		t.Error("a cancelled call has a result")
	}
	if out, err := h.Call("echo", map[string]string{"message": "still here"}); err != nil || !strings.Contains(out.Text, "still here") {
		t.Errorf("after the cancelled call: %+v, %v", out, err)
	}
}

// serveHTTP starts the server as one of the streamable HTTP transport and returns its address. It ends with the test.
func serveHTTP(t *testing.T, program string) string {
	t.Helper()
	address := need.Address(t) // the server takes a number, not a listener
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the server does not listen")
		}
	}
}

func TestRealFilesystem(t *testing.T) {
	program, _ := mcptest.Server(t, "server-filesystem")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("written down"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startReal(t, map[string]any{"command": "node", "args": []string{program, dir}})
	out, err := h.Call("read_text_file", map[string]string{"path": filepath.Join(dir, "note.txt")})
	if err != nil || out.IsError || !strings.Contains(out.Text, "written down") {
		t.Errorf("read: %+v, %v", out, err)
	}
	if out, err = h.Call("read_text_file", map[string]string{"path": "/etc/passwd"}); err != nil || !out.IsError {
		t.Errorf("read outside: %+v, %v", out, err)
	}
	for _, one := range h.Tools() {
		if one.Name == "read_text_file" && one.Effect != tool.Read || one.Name == "write_file" && one.Effect != tool.Destructive {
			t.Errorf("%s claims %d", one.Name, one.Effect)
		}
	}
}

func TestProgramThatIsNoServer(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		args    []string
		want    string
	}{
		"not there":       {"/nowhere/server", nil, "no such file"},
		"ends at once":    {"sh", []string{"-c", "echo broken >&2; exit 3"}, "it wrote: broken"},
		"says garbage":    {"sh", []string{"-c", "echo hello; cat >/dev/null"}, "connect to the server"},
		"writes no frame": {"sh", []string{"-c", "head -c 20000000 /dev/zero | tr '\\0' '['; cat >/dev/null"}, "connect to the server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &provider{timeouts: quick()}
			h := plugintest.StartTools(t, p, plugintest.Config{Settings: map[string]any{"command": c.command, "args": c.args}})
			if text := h.WaitStatus(tool.StateDegraded); !strings.Contains(text, c.want) {
				t.Errorf("status %q, want %q", text, c.want)
			}
			out, err := h.Call("any", nil)
			if err != nil || !out.IsError || !strings.Contains(out.Text, "is not connected") {
				t.Errorf("a call: %+v, %v", out, err)
			}
		})
	}
}

// TestServerThatStays has one that ignores the end of its input. The plugin ends, and the host with it its whole process group.
func TestServerThatStays(t *testing.T) {
	stay := filepath.Join(t.TempDir(), "stay") // is gone with the test
	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := plugintest.StartTools(t, &provider{timeouts: quick()}, plugintest.Config{
		Settings: map[string]any{"command": "sh", "args": []string{"-c", `echo garbage; while [ -e "$0" ]; do sleep 0.05; done`, stay}},
		Timeout:  30 * time.Second,
	})
	if err := h.Wait(); err == nil || !strings.Contains(err.Error(), "does not exit when its input ends") {
		t.Errorf("it ended with %v", err)
	}
}
