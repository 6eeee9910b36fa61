package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/tool"
)

func TestRolls(t *testing.T) {
	h := plugintest.StartTools(t, &dice{}, plugintest.Config{})
	h.WaitStatus(tool.StateReady)
	out, err := h.Call("roll", map[string]int{"sides": 6, "dice": 3})
	if err != nil || out.IsError {
		t.Fatalf("roll: %+v, %v", out, err)
	}
	var sum, a, b, c int
	if _, err := fmt.Sscanf(out.Text, "%d: [%d %d %d]", &sum, &a, &b, &c); err != nil || sum != a+b+c || min(a, b, c) < 1 || max(a, b, c) > 6 {
		t.Errorf("it rolled %q", out.Text)
	}
	if out, err := h.Call("roll", map[string]int{"faces": 6}); err != nil || !out.IsError {
		t.Errorf("an unknown argument: %+v, %v", out, err)
	}
	if err := h.Shutdown(); err != nil {
		t.Error(err)
	}
}

func TestRefusesNonsense(t *testing.T) {
	_, err := plugintest.TryStartTools(t, &dice{}, plugintest.Config{Settings: map[string]any{"max_dice": "many"}})
	if _, ok := errors.AsType[tool.FieldErrors](err); !ok {
		t.Errorf("got %v, want field errors", err)
	}
}
