package storetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

func egressLog(t *testing.T, open Opener) {
	s := open()
	passed := egress.Record{
		ID: "a", At: noon, Kind: "proxy", Session: "irc:#flynn:helper", Agent: "helper", Method: "GET", Host: "example.com", Port: 443,
		Addrs: []string{"93.184.216.34", "2606:2800::1"}, Allowed: true, Credential: true,
	}
	refused := egress.Record{ID: "b", At: noon.Add(time.Hour), Kind: "bridge", Session: "other", Method: "gh", Reason: "no \x00 \xff", Addrs: []string{}}
	check(t, s.AddEgress(t.Context(), []egress.Record{passed, refused}))
	ended := passed
	ended.Host, ended.Up, ended.Down, ended.Ended = "of no account", 5, 1<<40, noon.Add(time.Minute)
	check(t, s.AddEgress(t.Context(), []egress.Record{ended}))
	ended.Host = passed.Host

	s = open()
	all := must[[]egress.Record](t)(s.ListEgress(t.Context(), egress.RecordFilter{}))
	if want := []egress.Record{ended, refused}; !reflect.DeepEqual(all, want) {
		t.Fatalf("records are\n%+v, want\n%+v", all, want)
	}
	for _, c := range []struct {
		name   string
		filter egress.RecordFilter
		want   string
	}{
		{"session", egress.RecordFilter{Session: "other"}, "b"},
		{"refusals", egress.RecordFilter{Denied: true}, "b"},
		{"since", egress.RecordFilter{Since: noon.Add(time.Minute)}, "b"},
		{"of an agent", egress.RecordFilter{Agent: "helper"}, "a"},
		{"before one", egress.RecordFilter{Before: "b"}, "a"},
		{"before the first", egress.RecordFilter{Before: "a"}, ""},
		{"before one that is not there", egress.RecordFilter{Before: "' OR 1=1 --"}, ""},
		{"the latest", egress.RecordFilter{Limit: 1}, "b"},
		{"of a session that has none", egress.RecordFilter{Session: "other", Since: noon.Add(2 * time.Hour)}, ""},
	} {
		got := ""
		for _, r := range must[[]egress.Record](t)(s.ListEgress(t.Context(), c.filter)) {
			got += r.ID
		}
		if got != c.want {
			t.Errorf("%s: records %q, want %q", c.name, got, c.want)
		}
	}
}
