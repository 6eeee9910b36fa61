package message

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBoundRoles(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("r", i))
	}
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"none", nil, nil},
		{"as they come", []string{"op", "voice"}, []string{"op", "voice"}},
		{"twice", []string{"op", "op"}, []string{"op"}},
		{"empty", []string{"", "op"}, []string{"op"}},
		{"too long is dropped, not cut", []string{strings.Repeat("o", MaxRole+1), strings.Repeat("o", MaxRole)}, []string{strings.Repeat("o", MaxRole)}},
		{"what does not print", []string{"o\np", "o\x00", "\xff", "o\u202ep", "op"}, []string{"op"}},
		{"too many", many, many[:MaxRoles]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := BoundRoles(c.in); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMediaType(t *testing.T) {
	for in, want := range map[string]string{
		"image/png":                     "image/png",
		" Image/PNG; q=1 ":              "image/png",
		"application/vnd.ms+xml":        "application/vnd.ms+xml",
		"":                              "",
		"png":                           "",
		"image/":                        "",
		"/png":                          "",
		"a/b/c":                         "",
		"image/p\nng":                   "",
		"image/*":                       "",
		"x/" + strings.Repeat("y", 200): "",
	} {
		if got := MediaType(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestBoundedMessage(t *testing.T) {
	m := Message{Attachments: make([]Attachment, 100), Sender: Sender{Roles: []string{"op", "op"}}}
	m.Attachments[0].Type = "Text/HTML; charset=x"
	b := m.Bounded()
	if len(b.Attachments) != MaxAttachments || b.Attachments[0].Type != "text/html" || len(b.Sender.Roles) != 1 {
		t.Errorf("bounded: %+v", b)
	}
	if m.Attachments[0].Type != "Text/HTML; charset=x" {
		t.Error("the message itself was changed")
	}
}

func FuzzBounded(f *testing.F) {
	f.Add("op", "image/png")
	f.Add("\x00", "a/b;c")
	f.Add(strings.Repeat("é", MaxText), "short")
	f.Fuzz(func(t *testing.T, role, media string) {
		m := Message{Text: role, Sender: Sender{Roles: []string{role, role, "x"}}, Attachments: []Attachment{{Type: media}}}.Bounded()
		if len(m.Text) > MaxText || !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0) || m.Cut != strings.HasSuffix(m.Text, CutMark) && !strings.HasSuffix(role, CutMark) {
			t.Errorf("%d bytes of text are kept, valid %v, cut %v", len(m.Text), utf8.ValidString(m.Text), m.Cut)
		}
		again := m.Bounded()
		if again.Text != m.Text || again.Cut != m.Cut || !slices.Equal(again.Sender.Roles, m.Sender.Roles) || again.Attachments[0].Type != m.Attachments[0].Type {
			t.Errorf("bounded twice is another: %+v, %+v", m, again)
		}
		if len(m.Sender.Roles) == 0 || len(m.Attachments[0].Type) > MaxMediaType {
			t.Errorf("bounded: %+v", m)
		}
	})
}
