package redact

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestSecretDoesNotPrint(t *testing.T) {
	s := Secret("hunter2")
	text, err := json.Marshal(map[string]any{"key": s, "none": Secret("")})
	if err != nil || string(text) != `{"key":"[redacted]","none":""}` {
		t.Errorf("in JSON: %s, %v", text, err)
	}
	for _, form := range []string{"%v", "%s", "%+v", "%#v"} {
		if got := fmt.Sprintf(form, s); got != Mark {
			t.Errorf("%s prints %q", form, got)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("the value is lost")
	}
}

func TestWords(t *testing.T) {
	secrets := Words("token", "token-1", `quo"ted`, "abc")
	for text, want := range map[string]string{
		"token-1 token abc": "[redacted] [redacted] abc", `{"a":"quo\"ted"}`: `{"a":"[redacted]"}`, `quo"ted`: "[redacted]", "plain": "plain",
	} {
		if got := secrets.Replace(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
