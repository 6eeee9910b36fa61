package chat

import "testing"

func TestPlace(t *testing.T) {
	for where, want := range map[string]string{
		"": "on the host", "host": "on the host", "sandbox": "in the sandbox", "builds": "in sandbox builds", "own container": "in a container of its own",
	} {
		if got := place(where); got != want {
			t.Errorf("place(%q) is %q, want %q", where, got, want)
		}
	}
}
