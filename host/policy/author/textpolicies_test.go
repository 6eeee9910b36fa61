package author

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/message"
)

// richData is the most that the policies which search texts are asked to look for.
func richData() map[string]map[string]string {
	many := strings.Repeat("ab=helper ", 63) + "zz=helper"
	return map[string]map[string]string{
		"group-etiquette": {
			"keywords":      strings.Repeat("ab,", 63) + "zz",
			"conversations": strings.Repeat("discord:* quiet=01:00-02:00 follow=1h\n", 64),
		},
		"router": {
			"mentions": many, "places": strings.ReplaceAll(many, "=", ":*="), "scripts": "han=helper",
			"languages": "bg=helper cs=helper da=helper de=helper en=helper es=helper fi=helper fr=helper hu=helper it=helper nl=helper no=helper " +
				"pl=helper pt=helper ro=helper ru=helper sv=helper tr=helper uk=helper",
		},
	}
}

// affordsLongTexts asks a built policy about the longest text of several sorts: whatever a sender writes, it must not spend the fuel.
func affordsLongTexts(t *testing.T, policy string) {
	t.Helper()
	a := mustOpen(t, firstParty(policy), richData()[policy])
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
		o := outcomeOf(a.ask(t.Context(), Case{Kind: "route", Ask: settled(t, f)}, nil))
		if o.Error != "" || o.Fuel == 0 {
			t.Errorf("%s: %v", name, o)
		}
		t.Logf("%s: %v", name, o)
	}
}
