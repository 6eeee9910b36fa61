//go:build linux || darwin

package peercred

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPeer(t *testing.T) {
	for _, c := range []struct {
		network, address string
		known            bool
	}{{"unix", filepath.Join(t.TempDir(), "s"), true}, {"tcp", "127.0.0.1:0", false}} {
		t.Run(c.network, func(t *testing.T) {
			l, err := net.Listen(c.network, c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			out, err := net.Dial(c.network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			in, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			uid, err1 := UID(in)
			pid, err2 := PID(in)
			if c.known && (err1 != nil || err2 != nil || int(uid) != os.Getuid() || pid != os.Getpid()) {
				t.Errorf("user %d (%v), process %d (%v)", uid, err1, pid, err2)
			}
			if !c.known && (!errors.Is(err1, ErrUnsupported) || !errors.Is(err2, ErrUnsupported)) {
				t.Errorf("errors %v and %v", err1, err2)
			}
			in.Close()
			if _, err := UID(in); err == nil {
				t.Error("a closed socket has a peer")
			}
		})
	}
}
