package machine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestAudience(t *testing.T) {
	var a machine.Audience
	a.Tell("before anybody came")
	var mu sync.Mutex
	heard := map[string][]string{}
	listener := func(name string) context.Context {
		return machine.WithNotice(t.Context(), func(line string) {
			mu.Lock()
			defer mu.Unlock()
			heard[name] = append(heard[name], line)
		})
	}
	leaveFirst := a.Join(listener("first"))
	leaveSecond := a.Join(listener("second"))
	a.Join(t.Context())() // nobody listens there
	a.Tell("both")
	leaveFirst()
	a.Tell("second only")
	leaveSecond()
	a.Tell("nobody")
	for name, want := range map[string][]string{
		"first":  {"before anybody came", "both"},
		"second": {"before anybody came", "both", "second only"},
	} {
		if !slices.Equal(heard[name], want) {
			t.Errorf("%s heard %q, want %q", name, heard[name], want)
		}
	}
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		began := time.Now()
		line, stop := machine.Throttle(time.Second, func(l string) {
			told = append(told, l+" at "+time.Since(began).String())
		})
		line("a")
		line("b")
		line("c")
		time.Sleep(1500 * time.Millisecond) // c comes at 1s
		line("d")
		time.Sleep(time.Second) // d comes at 2s
		time.Sleep(5 * time.Second)
		line("e")
		line("never")
		stop()
		line("never")
		time.Sleep(time.Minute)
		want := []string{"a at 0s", "c at 1s", "d at 2s", "e at 7.5s"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
