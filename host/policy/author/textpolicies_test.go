package author

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/message"
)

// The policies in AssemblyScript read as much of a text as the frame has, and the longest one must not spend their fuel, whatever it is made of
// and however much they have to look for.
func TestTextPoliciesAffordTheLongestText(t *testing.T) {
	many := strings.Repeat("ab=helper ", 63) + "zz=helper"
	for policy, data := range map[string]map[string]string{
		"group-etiquette": {
			"keywords":      strings.Repeat("ab,", 63) + "zz",
			"conversations": strings.Repeat("discord:* quiet=01:00-02:00 follow=1h\n", 64),
		},
		"router": {
			"mentions": many, "places": strings.ReplaceAll(many, "=", ":*="), "scripts": "han=helper",
			"languages": "bg=helper cs=helper da=helper de=helper en=helper es=helper fi=helper fr=helper hu=helper it=helper nl=helper no=helper " +
				"pl=helper pt=helper ro=helper ru=helper sv=helper tr=helper uk=helper",
		},
	} {
		mustBuild(t, firstParty(policy))
		a := mustOpen(t, firstParty(policy), data)
		for name, text := range map[string]string{
			"words that begin alike": "abc ",
			"short words":            "a ",
			"one word":               "a",
			"capitals with marks":    "ÄÖ ",
			"capitals that grow":     "İ ",
			"characters of four":     "𠀀",
		} {
			f := conformanceFacts()
			f.Text, f.ConversationKind, f.Addressed = strings.Repeat(text, message.MaxText/len(text)), "group", false
			o := a.ask(t.Context(), Case{Kind: kindRoute, Ask: settled(t, f)}).outcome
			if o.Error != "" || o.Fuel == 0 {
				t.Errorf("%s, %s: %v", policy, name, o)
			}
			t.Logf("%s, %s: %v", policy, name, o)
		}
	}
}
