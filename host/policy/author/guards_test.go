package author

import (
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool"
)

// A session that has touched all that it can must not spend the policy's fuel, with the limits of a configuration that names none.
// Where it does all the same, by globs that the host has to match, the call is denied.
func TestUntrustedContentAffordsAllLabels(t *testing.T) {
	t.Parallel()
	mustBuild(t, firstParty("untrusted-content"))
	var labels []string
	for i := range 2 * tool.MaxLabels {
		labels = append(labels, fmt.Sprintf("file:%0*d", tool.MaxLabel-5, i))
	}
	f := conformanceFacts()
	f.Labels, f.Effect = append(labels, "web:example.com"), "execute"
	for _, c := range []struct {
		name    string
		data    map[string]string
		ask     bool
		failure bool
	}{
		{"as it comes", map[string]string{}, true, false},
		{"with globs for the host", map[string]string{"untrusted": "file:{a,b} web:*"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := OpenSubject(firstParty("untrusted-content"))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			p.manifest.Limits = Limits{}
			a, err := p.loadCase(t.Context(), Case{Kind: policy.KindTool, Data: c.data})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			o := outcomeOf(a.ask(t.Context(), Case{Kind: policy.KindTool, Ask: settled(t, f), Args: []byte("{}")}, nil))
			if o.Ask != c.ask || (o.Error != "") != c.failure {
				t.Errorf("%v", o)
			}
			t.Logf("fuel %d", o.Fuel)
		})
	}
}
