package fuzz

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Bounds of changed facts. A text may be as long as channels allow.
const (
	maxString = 2 << 10
	maxList   = 64
	maxArgs   = 16 << 10
)

// mutate makes one to three changes.
func (s *session) mutate(in input) input {
	in.Ask = in.Ask.Clone()
	in.Ask.Agents = slices.Clone(s.agents)
	fields := arguments()
	if in.Kind == policy.KindTool {
		fields++
	}
	for range 1 + s.random.IntN(2)*s.random.IntN(3) {
		k := s.choose(fields)
		switch {
		case s.random.IntN(24) == 0:
			in = s.splice(in)
		case k == arguments():
			in.Args = s.mutateArgs(in.Args)
		default:
			s.mutateFact(&in.Ask, k)
		}
	}
	if s.unsettled(&in.Ask) {
		in.Ask = in.origin.Ask.Clone()
		in.Ask.Agents = slices.Clone(s.agents)
	}
	return in
}

// unsettled reports whether facts are invalid.
func (s *session) unsettled(f *author.Facts) bool {
	f.Channel = "" // it is the sender's
	return f.Settle() != nil
}

// splice takes the arguments or a fact of another input of the same kind.
func (s *session) splice(in input) input {
	other := s.corpus[s.random.IntN(len(s.corpus))]
	if other.Kind != in.Kind {
		return in
	}
	if in.Kind == policy.KindTool && s.random.IntN(2) == 0 {
		in.Args = other.Args
		return in
	}
	to, from := reflect.ValueOf(&in.Ask).Elem(), reflect.ValueOf(other.Ask.Clone())
	if k := s.random.IntN(to.NumField()); !fixed(to.Type().Field(k)) {
		to.Field(k).Set(from.Field(k))
	}
	return in
}

// fixed reports whether a fact is not changed. The list of agents is the operator's configuration, as the policy's data is; all agents of the
// cases are in it. The channel is part of the sender.
func fixed(f reflect.StructField) bool {
	return f.Name == "Agents" || f.Name == "Channel" || !f.IsExported()
}

// known returns the values that a fact has in this version, if they are limited.
func known(name string) []string {
	switch name {
	case "Role":
		return []string{"owner", "member", "guest"}
	case "Door":
		return []string{"channel", "web", "terminal"}
	case "ConversationKind":
		return []string{string(message.DM), "group", "thread"}
	case "Effect":
		return []string{"read", "write", "execute", "network"}
	case "Zone":
		return []string{"UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin"}
	}
	return nil
}

// mutateFact changes one fact, by its type.
func (s *session) mutateFact(f *author.Facts, k int) {
	v := reflect.ValueOf(f).Elem()
	name, field := v.Type().Field(k).Name, v.Field(k)
	switch {
	case fixed(v.Type().Field(k)):
	case name == "Now":
		field.SetString(s.time(field.String()))
	case name == "Sender":
		field.SetString(s.sender(field.String()))
	case name == "Text":
		field.SetString(s.text(field.String(), message.MaxText))
	case name == "Attachments":
		field.SetInt(int64(s.random.IntN(maxList)))
	case field.Kind() == reflect.String:
		s.mutateString(name, field)
	case field.Kind() == reflect.Bool:
		field.SetBool(!field.Bool())
	case field.Kind() == reflect.Int, field.Kind() == reflect.Int64:
		field.SetInt(s.integer(name, field.Int()))
	case field.Kind() == reflect.Slice:
		field.Set(reflect.ValueOf(s.list(slices.Clone(field.Interface().([]string)))))
	}
}

func (s *session) mutateString(name string, field reflect.Value) {
	list := known(name)
	switch {
	case name == "Zone" || len(list) > 0 && s.random.IntN(8) > 0:
		field.SetString(list[s.random.IntN(len(list))])
	default:
		field.SetString(s.text(field.String(), maxString))
	}
}

// integer returns a number at an edge case, or near the previous one. Only the seed may be negative.
func (s *session) integer(name string, was int64) int64 {
	edges := []int64{0, 1, 2, 7, 59, 60, 99, 100, 127, 128, 255, 256, 1023, 1024, 65_535, 65_536, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32}
	if name == "SessionCost" || name == "SessionTokens" || name == "Seed" {
		edges = append(edges, 1<<62, 1<<63-1)
	}
	v := edges[s.random.IntN(len(edges))]
	if s.random.IntN(3) == 0 {
		v = was + int64(s.random.IntN(5)) - 2
	}
	if v < 0 && name != "Seed" {
		return 0
	}
	return v
}

// sender keeps the form "instance:platform-id".
func (s *session) sender(was string) string {
	instance, id, _ := message.SenderKey(was).Cut()
	if s.random.IntN(4) == 0 {
		instance = strings.ReplaceAll(s.text(instance, 64), ":", "")
	} else {
		id = s.text(id, maxString)
	}
	return string(message.NewSenderKey(instance, id))
}

// time returns another day, another minute, or an edge case.
func (s *session) time(was string) string {
	t, err := time.Parse(time.RFC3339, was)
	if err != nil {
		return was
	}
	switch s.random.IntN(4) {
	case 0:
		t = t.AddDate(0, 0, s.random.IntN(15)-7)
	case 1:
		t = t.Truncate(24 * time.Hour).Add(time.Duration(s.random.IntN(24*60)) * time.Minute)
	case 2:
		t = t.Truncate(time.Hour).Add(time.Duration(s.random.IntN(3)-1) * time.Second)
	default:
		t = time.Unix([]int64{0, -1, 1<<31 - 1, 1 << 31, 951_782_400, 4_102_444_799}[s.random.IntN(6)], 0).UTC()
	}
	return t.Format(time.RFC3339)
}

func (s *session) list(list []string) []string {
	switch n := len(list); {
	case n > 0 && s.random.IntN(3) == 0:
		k := s.random.IntN(n)
		return slices.Delete(list, k, k+1)
	case n > 0 && s.random.IntN(2) == 0:
		k := s.random.IntN(n)
		list[k] = s.text(list[k], 256)
	case n < maxList:
		return slices.Insert(list, s.random.IntN(n+1), s.text(s.word(), 256))
	}
	return list
}
