package config

import "testing"

func TestReasoning(t *testing.T) {
	for text, want := range map[string]struct {
		tokens  int
		effort  string
		counted bool
	}{
		"off":    {0, "off", false},
		"low":    {lowReasoning, "low", false},
		"high":   {highReasoning, "high", false},
		"1024":   {1024, "low", true},
		"008000": {8000, "medium", true},
		"60000":  {60000, "high", true},
	} {
		var r Reasoning
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if r.Tokens() != want.tokens || r.Effort() != want.effort || r.Counted() != want.counted || r.On() != (text != "off") {
			t.Errorf("%q is %d tokens, effort %s, counted %t", text, r.Tokens(), r.Effort(), r.Counted())
		}
	}
	for _, text := range []string{"", "very", "1023", "-5", "1e4", "131073", "99999999999999999999"} {
		if err := new(Reasoning).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if Reasoning("").On() || Reasoning("").Tokens() != 0 {
		t.Error("the zero value is not off")
	}
}
