//go:build linux

package machine

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
)

func TestKillOneSparesStrangers(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	stranger := exec.Command("cat")
	stranger.Env = []string{markerName + "=another"}
	stranger.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	in, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := stranger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = stranger.Wait()
	}()
	leader := exec.Command("sleep", "1000")
	leader.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{cmd: leader, marker: "ours", started: time.Now().Add(-time.Hour)}
	r.killOne(stranger.Process.Pid)
	echo := make([]byte, 1)
	if _, err := in.Write([]byte("x")); err != nil {
		t.Errorf("a stranger was hit: %v", err)
	}
	if _, err := out.Read(echo); err != nil {
		t.Errorf("a stranger was hit: %v", err)
	}
	members := r.members()
	if len(members) != 1 || members[0].pid != leader.Process.Pid {
		t.Errorf("members %+v, want the leader %d alone", members, leader.Process.Pid)
	}
	r.killOne(leader.Process.Pid)
	if err := leader.Wait(); err == nil {
		t.Error("a member of the session was spared")
	}
}

func FuzzInside(f *testing.F) {
	for _, seed := range []string{"", ".", "../..", "a/../..", "/work/a", "/work", "/work/../etc", "/workshop", "a\x00b", "//work//x", "./.././work"} {
		f.Add(seed)
	}
	h := &Host{workspace: "/work", resolved: "/mnt/real"}
	f.Fuzz(func(t *testing.T, path string) {
		if rel, err := h.inside(path); err == nil && !filepath.IsLocal(rel) {
			t.Fatalf("%q gives %q", path, rel)
		}
	})
}

func TestCaptureCountsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		var reported, all []byte
		c := newCapture(limit, Stdout, func(_ Stream, p []byte) { reported = append(reported, p...) })
		for range rapid.IntRange(0, 10).Draw(t, "writes") {
			p := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "p")
			c.take(p)
			all = append(all, p...)
		}
		kept := all[:min(len(all), limit)]
		if !bytes.Equal(c.bytes, kept) || !bytes.Equal(reported, kept) || c.dropped != int64(len(all)-len(kept)) {
			t.Fatalf("kept %d, reported %d, dropped %d of %d at a limit of %d", len(c.bytes), len(reported), c.dropped, len(all), limit)
		}
	})
}
