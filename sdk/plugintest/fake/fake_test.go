package fake

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// diary is a platform that notes what it is told.
type diary struct {
	notes  []string
	refuse bool
	closed bool
}

func (d *diary) Post(p Post) error { d.notes = append(d.notes, "post "+p.Text); return d.err() }
func (d *diary) Disconnect()       { d.notes = append(d.notes, "disconnect") }
func (d *diary) Close()            { d.closed = true }

func (d *diary) err() error {
	if d.refuse {
		return errors.New("not today")
	}
	return nil
}

// caller is one that takes webhooks, too.
type caller struct{ *diary }

func (c caller) Webhook(w Webhook) error {
	c.notes = append(c.notes, "webhook "+w.URL)
	return c.err()
}

func TestRun(t *testing.T) {
	const commands = `{"webhook":{"url":"http://h"},"later":1}
{"post":{"id":"1","text":"a"}}
{"disconnect":true}
`
	for _, c := range []struct {
		name   string
		in     string
		caller bool
		refuse bool
		notes  []string
		err    string
	}{
		{"a platform that is polled", commands, false, false, []string{"post a", "disconnect"}, ""},
		{"one that calls", commands, true, false, []string{"webhook http://h", "post a", "disconnect"}, ""},
		{"one that refuses the webhook", commands, true, true, []string{"webhook http://h"}, "take the webhook http://h: not today"},
		{"one that refuses a post", commands, false, true, []string{"post a"}, "post 1: not today"},
		{"no JSON", "hello\n", false, false, nil, "read a command"},
		{"a line without end", strings.Repeat("x", maxCommand+1), false, false, nil, "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &diary{refuse: c.refuse}
			var out bytes.Buffer
			err := Run(strings.NewReader(c.in), &out, func(report func(Report)) (Ready, Platform, error) {
				if c.caller {
					return Ready{}, caller{d}, nil
				}
				return Ready{}, d, nil
			})
			if !slices.Equal(d.notes, c.notes) || !d.closed || !strings.HasPrefix(out.String(), `{"ready":`) {
				t.Errorf("notes %q, out %q", d.notes, out.String())
			}
			if (err == nil) != (c.err == "") || !strings.Contains(fmt.Sprint(err), c.err) && c.err != "" {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
