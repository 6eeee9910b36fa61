package main

import (
	"cmp"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/cut"
)

// decoder converts Slack's mrkdwn to plain text: entities become visible text, with marks at their positions.
type decoder struct {
	name func(id string) string // of a user; "" when it is not known
	me   string                 // Flynn's user
}

const (
	maxNames    = 10       // people of one message that are looked up
	maxEntities = 100      // of one message
	maxSource   = 64 << 10 // bytes; Slack's own limit is below
)

// decode returns the text, its marked ranges, and whether it names Flynn. A mention of Flynn at the very beginning is the
// address, and is taken off.
func (d decoder) decode(source string) (text string, list []channel.Entity, mentioned bool) {
	source = strings.ToValidUTF8(cut.Head(source, maxSource), "\uFFFD")
	if rest, ok := d.address(source); ok {
		source, mentioned = rest, true
	}
	var out strings.Builder
	names := 0
	for source != "" {
		i := strings.IndexByte(source, '<')
		if i < 0 {
			break
		}
		out.WriteString(unescape(source[:i]))
		source = source[i:]
		end := strings.IndexByte(source, '>')
		if end < 0 {
			break
		}
		shown, e := d.entity(source[1:end], &names)
		if e.Kind == "mention" && e.Value == d.me {
			mentioned = true
		}
		if e.Kind != "" && shown != "" && len(list) < maxEntities {
			e.Offset, e.Length = out.Len(), len(shown)
			list = append(list, e)
		}
		out.WriteString(shown)
		source = source[end+1:]
	}
	out.WriteString(unescape(source))
	return out.String(), list, mentioned
}

// address takes a mention of Flynn off the front.
func (d decoder) address(source string) (rest string, ok bool) {
	inner, ok := strings.CutPrefix(strings.TrimLeft(source, " "), "<@"+d.me)
	if !ok || d.me == "" {
		return source, false
	}
	end := strings.IndexByte(inner, '>')
	if end < 0 || end > 0 && inner[0] != '|' {
		return source, false
	}
	return strings.TrimLeft(inner[end+1:], " ,:"), true
}

// entity parses the text between < and >.
func (d decoder) entity(inner string, names *int) (shown string, e channel.Entity) {
	target, label, labelled := strings.Cut(inner, "|")
	label = unescape(label)
	switch {
	case target == "":
		return "<" + unescape(inner) + ">", e
	case target[0] == '@':
		id := target[1:]
		if label == "" && *names < maxNames {
			*names++
			label = d.name(id)
		}
		return "@" + cmp.Or(strings.TrimPrefix(label, "@"), id), channel.Entity{Kind: "mention", Value: id}
	case target[0] == '#':
		return "#" + cmp.Or(strings.TrimPrefix(label, "#"), target[1:]), channel.Entity{Kind: "channel", Value: target[1:]}
	case target[0] == '!':
		return special(target[1:], label), e
	}
	address := unescape(target)
	if !labelled || label == "" {
		label = strings.TrimPrefix(address, "mailto:")
	}
	return label, channel.Entity{Kind: "link", Value: address}
}

// special returns a group of people or a date.
func special(target, label string) string {
	word, _, _ := strings.Cut(target, "^")
	switch {
	case word == "date" && label != "":
		return label
	case label != "":
		return "@" + strings.TrimPrefix(label, "@")
	}
	return "@" + word
}

func unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
