package rego_test

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

// TestDocumentThatNobodyCanPay: the document is made where no module runs, so that its price has to be an error there and not a panic.
func TestDocumentThatNobodyCanPay(t *testing.T) {
	path := compiled(t, `tool := {"deny": false}`, policy.KindTool)
	m := opened(t, policy.Source{Name: "p", Path: path, Kinds: []string{policy.KindTool}})
	for name, size := range map[string]int{"before it is made": 1 << 20, "once it is in the module": 300_000} {
		t.Run(name, func(t *testing.T) {
			got, r := m.Tool(t.Context(), toolFacts(`{"a":"`+strings.Repeat("x", size)+`"}`))
			if !got.Deny || !strings.HasPrefix(r.Error, "fuel: ") {
				t.Errorf("%+v with the error %q", got, r.Error)
			}
			if got, r := m.Tool(t.Context(), toolFacts(`{}`)); got.Deny || r.Error != "" {
				t.Errorf("afterwards %+v with the error %q", got, r.Error)
			}
		})
	}
}
