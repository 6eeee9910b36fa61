package config

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]Size{"1k": 1 << 10, "512m": 512 << 20, "2G": 2 << 30, "0b": 0, "8589934591g": 8589934591 << 30} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	refuse(t, new(Size), "", "512", "m", "-1m", "1.5g", "1 m", "1mb", "+1m", "8589934592g", "99999999999999999999k")
	refuse(t, new(CPUs), "", ".", "1,5", "-1", "inf", "0x1p-2", "1e3", "1_0", "1.0.0")
	refuse(t, new(Duration), "", "50", "fast", "1d")
	refuse(t, new(Percent), "", "%", "1", "-1%", "101%", "1%%", "inf%", "1e1%", "0x1%", "1_0%", "1 %")
}

func refuse(t *testing.T, into encoding.TextUnmarshaler, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := into.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, into)
		}
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roundTrip(t, Size(rapid.Int64Min(0).Draw(t, "size")), new(Size))
		roundTrip(t, CPUs(rapid.Float64Range(0, 1e6).Draw(t, "cpus")), new(CPUs))
		roundTrip(t, Percent(rapid.Float64Range(0, 100).Draw(t, "percent")), new(Percent))
		roundTrip(t, Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration")), new(Duration))
	})
}

func roundTrip[T interface {
	comparable
	fmt.Stringer
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *rapid.T, v T, into P) {
	if err := into.UnmarshalText([]byte(v.String())); err != nil || *into != v {
		t.Errorf("%v was read as %v, %v", v, *into, err)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"timeout_seconds", "pids_limit", "image", "main", "coder"}
	for name, want := range map[string]string{
		"timeout_second": "timeout_seconds", "timeoutseconds": "timeout_seconds", "imgae": "image", "mian": "main",
		"Image": "image", "xyzzy": "", "": "", "pidslimit": "pids_limit",
	} {
		if got := Nearest(name, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

func TestSecretsPrintRedacted(t *testing.T) {
	s := struct{ Key Secret }{"hunter2"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, s); strings.Contains(got, "hunter2") {
			t.Errorf("%s prints %s", format, got)
		}
	}
}
