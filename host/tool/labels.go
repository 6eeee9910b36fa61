package tool

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A label says what a session has touched, as KIND:WHAT. It lies beside the text and not in it, so that nothing a text says, and
// no shortening of it, can take it away. These are the kinds:
//
//	web:HOST           a page or an answer of that host
//	file:PATH          a file or folder of the workspace
//	shell:PLACE        what a command printed there: "host", or a sandbox's name
//	network:PLACE      the same, where that place reaches a network: what was printed may come from anywhere
//	sender:ROLE        words of somebody who is not an owner
//	attachment:TYPE    a file that came with a message, by its media type or "unknown"
//	tool:NAME          the result of a tool that is not Flynn's own
//	memory:extracted   a note that a model took out of a turn
//	suspect:WHAT       a text in which a model found instructions ("instructions"), or that could not be looked through
//	delegated:AGENT    work that this agent gave to another one; only the one that does it has the label
//	other:imported     a session that was exported elsewhere: nobody here has seen who said what in it
//	other:TEXT         a label of no such form
//
// WHAT ends in a star where it stands for more than one thing: for everything that begins so.

// Bounds of labels.
const (
	// MaxLabels bounds the labels of a session. Past it a label stands for its kind: web:example.com becomes web:*, so that
	// nothing can be crowded out by what came before; and past twice as many kinds everything new becomes other:*.
	MaxLabels = 256
	// MaxLabel bounds one label, in bytes. A longer one is cut and ends in a star.
	MaxLabel = 256
	maxKind  = 32
)

// Suspect is the label of what may give orders to a model.
const Suspect = "suspect:instructions"

// Imported is the label of everything in a session that comes from a file.
const Imported = "other:imported"

// ToolLabel is the label of what a tool says that is not Flynn's own.
func ToolLabel(name string) string { return "tool:" + name }

// DelegatedLabel is the label of a session in which an agent works for another one.
func DelegatedLabel(parent string) string { return "delegated:" + parent }

// PlaceLabels are those of what a program prints in a place: anything that can be reached from there may have had a say.
func PlaceLabels(place string, networked bool) []string {
	if networked {
		return []string{"network:" + place, "shell:" + place}
	}
	return []string{"shell:" + place}
}

// JoinLabels adds labels to a sorted list and returns another one; what was there stays. Labels come from foreign names (of
// files, hosts, media types), so each is brought into its form first.
func JoinLabels(have, more []string) []string {
	for _, l := range more {
		if _, found := slices.BinarySearch(have, l); found {
			continue
		}
		l = cleanLabel(l)
		switch {
		case len(have) >= 2*MaxLabels:
			l = "other:*"
		case len(have) >= MaxLabels:
			kind, _, _ := strings.Cut(l, ":")
			l = kind + ":*"
		}
		if i, found := slices.BinarySearch(have, l); !found {
			have = slices.Insert(slices.Clone(have), i, l)
		}
	}
	return have
}

// cleanLabel brings a label into its form: a kind that rules can name, no character that does not show, a bounded length.
func cleanLabel(label string) string {
	kind, what, ok := strings.Cut(label, ":")
	if !ok || !validKind(kind) {
		kind, what = "other", label
	}
	var b strings.Builder
	b.WriteString(kind + ":")
	for len(what) > 0 {
		r, size := utf8.DecodeRuneInString(what)
		piece := what[:size]
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			piece = percent(piece)
		}
		if b.Len()+len(piece) >= MaxLabel {
			b.WriteByte('*')
			break
		}
		b.WriteString(piece)
		what = what[size:]
	}
	return b.String()
}

// percent writes each byte as URLs do.
func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

func validKind(kind string) bool {
	outside := func(c rune) bool { return (c < 'a' || c > 'z') && c != '-' }
	return kind != "" && len(kind) <= maxKind && !strings.ContainsFunc(kind, outside)
}

// labelled gives a result the labels that it has to carry, whatever became of the call.
func (v Verdict) labelled(r Result) Result {
	labels := r.Labels
	if v.spec.Provider != "" {
		labels = append(slices.Clip(labels), ToolLabel(v.spec.Name))
	}
	r.Labels = JoinLabels(nil, labels)
	return r
}
