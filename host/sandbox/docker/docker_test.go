package docker

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// An engine that accepts connections and never answers holds nobody up.
func TestHungEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	silent, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d, err := New(Config{Engine: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	began := time.Now()
	if err := d.Ping(t.Context()); !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > pingTimeout+time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestAddressIsChecked(t *testing.T) {
	if _, err := New(Config{Engine: "nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v", err)
	}
}
