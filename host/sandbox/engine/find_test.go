package engine

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestFirstSocket(t *testing.T) {
	home, err := os.MkdirTemp("/tmp", "flynn-home-") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	none := filepath.Join(home, "none")
	paths := append([]string{none}, macSockets(home)...)
	if got := first(paths, isSocket); got != none {
		t.Errorf("without a socket: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(home, ".docker/run/docker.sock"), 0o700); err != nil { // a folder of that name
		t.Fatal(err)
	}
	for _, name := range []string{".local/share/containers/podman/machine/podman.sock", ".colima/default/docker.sock", ".orbstack/run/docker.sock"} {
		want := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(want), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", want)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if got := first(paths, isSocket); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, home := range []string{"", "home"} {
		if got := macSockets(home); got != nil {
			t.Errorf("of the home %q: %v", home, got)
		}
	}
	if _, err := Parse(Default(home)); err != nil {
		t.Error(err)
	}
}
