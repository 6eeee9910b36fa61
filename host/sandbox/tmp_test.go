package sandbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/machine"
)

func TestTmpLatency(t *testing.T) {
	s := open(t)
	var wall, total, list []time.Duration
	for range 2000 {
		b := time.Now()
		r := run(t, s, machine.Command{Script: "echo hello"})
		total = append(total, time.Since(b))
		wall = append(wall, r.Wall)
		b = time.Now()
		s.ReadFile(t.Context(), "nonexist", 0, 10)
		list = append(list, time.Since(b))
	}
	for _, x := range [][]time.Duration{wall, total, list} {
		slices.Sort(x)
		t.Log(x[len(x)/2], x[len(x)/10])
	}
}
