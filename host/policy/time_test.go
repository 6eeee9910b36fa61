package policy

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// TestTimeOfDay: what a clock on the wall shows where the host is, on the days on which it is turned as well.
func TestTimeOfDay(t *testing.T) {
	for _, c := range []struct {
		name    string
		zone    string
		utc     string
		minute  int64
		weekday time.Weekday
	}{
		{"UTC", "UTC", "2026-01-05T12:34:56Z", 12*60 + 34, time.Monday},
		{"winter", "Europe/Berlin", "2026-01-05T12:34:56Z", 13*60 + 34, time.Monday},
		{"summer", "Europe/Berlin", "2026-07-06T12:34:56Z", 14*60 + 34, time.Monday},
		{"the second before the clock is put forward", "Europe/Berlin", "2026-03-29T00:59:59Z", 1*60 + 59, time.Sunday},
		{"the hour that does not exist", "Europe/Berlin", "2026-03-29T01:00:00Z", 3 * 60, time.Sunday},
		{"the hour that comes twice, first", "Europe/Berlin", "2026-10-25T00:30:00Z", 2*60 + 30, time.Sunday},
		{"the hour that comes twice, again", "Europe/Berlin", "2026-10-25T01:30:00Z", 2*60 + 30, time.Sunday},
		{"after it", "Europe/Berlin", "2026-10-25T02:00:00Z", 3 * 60, time.Sunday},
		{"the day before, further west", "America/New_York", "2026-03-08T04:59:00Z", 23*60 + 59, time.Saturday},
		{"an hour forward, further west", "America/New_York", "2026-03-08T07:00:00Z", 3 * 60, time.Sunday},
		{"half an hour of summer time", "Australia/Lord_Howe", "2026-04-04T15:00:00Z", 1*60 + 30, time.Sunday},
		{"an odd quarter of an hour", "Asia/Kathmandu", "2026-01-05T00:00:00Z", 5*60 + 45, time.Monday},
		{"the day after, far east", "Pacific/Kiritimati", "2026-01-05T10:00:00Z", 0, time.Tuesday},
		{"before 1970", "UTC", "1969-12-31T23:59:59Z", 23*60 + 59, time.Wednesday},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, c.utc)
			if err != nil {
				t.Fatal(err)
			}
			q := toolQuery(&ToolFacts{Facts: Facts{Now: now.In(zone)}}, "Local/Name")
			number := func(id abi.Field) int64 {
				v, _ := fieldOf(q.frame, id)
				return int64(binary.LittleEndian.Uint64(v.bytes))
			}
			name, _ := fieldOf(q.frame, abi.Zone)
			if m, w, u := number(abi.MinuteOfDay), time.Weekday(number(abi.Weekday)), number(abi.UnixTime); m != c.minute || w != c.weekday || u != now.Unix() || string(name.bytes) != c.zone {
				t.Errorf("minute %d, %s, zone %s; want minute %d, %s", m, w, name.bytes, c.minute, c.weekday)
			}
		})
	}
}

// TestLocalTimeHasTheHostsZone: the local zone does not know its own name, which policies are told in its place.
func TestLocalTimeHasTheHostsZone(t *testing.T) {
	q := toolQuery(&ToolFacts{Facts: Facts{Now: time.Now()}}, "Europe/Berlin")
	if v, _ := fieldOf(q.frame, abi.Zone); time.Now().Location() == time.Local && string(v.bytes) != "Europe/Berlin" {
		t.Errorf("zone %q", v.bytes)
	}
}
