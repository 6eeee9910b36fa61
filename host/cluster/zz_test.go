package cluster

import (
	"os"
	"testing"

	"pgregory.net/rapid"
)

func TestZZ(t *testing.T) {
	fresh := sqliteBackend(t)
	rapid.Check(t, model(fresh, fault(os.Getenv("ZF"))))
}
