package tool

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A label says what a session has touched, as KIND:WHAT. It is kept beside the text and not in it, so that no text, and no shortening of
// it, can remove the label. These are the kinds:
//
//	web:HOST           a page or an answer of that host
//	file:PATH          a file or folder of the workspace
//	shell:WHERE        the output of a command: on the "host", or in the sandbox of that name
//	network:WHERE      the same, with a network: the output may come from anywhere
//	sender:ROLE        a message of somebody who is not an owner
//	attachment:TYPE    a file that came with a message, by its media type or "unknown"
//	tool:NAME          the result of a tool of a provider
//	memory:extracted   a note that a model extracted from a turn
//	suspect:WHAT       a text in which a model found instructions ("instructions"), or that could not be checked
//	delegated:AGENT    work that this agent delegated; only the delegate's session has the label
//	other:imported     a session that was exported from another host, whose senders this host has not seen
//	other:TEXT         a label of no such form
//
// WHAT ends in a star if it stands for all values that begin so.

// Bounds of labels.
const (
	// MaxLabels bounds the labels of a session. Beyond it a label is shortened to its kind: web:example.com becomes web:*, so
	// that many labels cannot hide a later one; beyond twice as many every new label becomes other:*.
	MaxLabels = 256
	// MaxLabel bounds one label, in bytes. A longer one is cut and ends in a star.
	MaxLabel = 256
	maxKind  = 32
)

// Suspect is the label of a text that may give orders to a model.
const Suspect = "suspect:instructions"

// Imported is the label of an imported session.
const Imported = "other:imported"

// ToolLabel is the label of the results of a provider's tool.
func ToolLabel(name string) string { return "tool:" + name }

// DelegatedLabel is the label of a session in which an agent works for another one.
func DelegatedLabel(parent string) string { return "delegated:" + parent }

// PlaceLabels are the labels of a program's output on the host or in a sandbox.
func PlaceLabels(place string, networked bool) []string {
	if networked {
		return []string{"network:" + place, "shell:" + place}
	}
	return []string{"shell:" + place}
}

// JoinLabels returns a sorted list with more labels. Labels contain foreign names (of files, hosts, media types), so each is
// brought into its form first.
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

// labelled adds the labels that every result of the call must have.
func (v Decision) labelled(r Result) Result {
	labels := r.Labels
	if v.spec.Provider != "" {
		labels = append(slices.Clip(labels), ToolLabel(v.spec.Name))
	}
	r.Labels = JoinLabels(nil, labels)
	return r
}
