package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/store"
)

func values(t *testing.T, open Opener) {
	s := open()
	room := store.Room{Keys: 100, Bytes: 1 << 20}
	odd := "\x00\xff é"
	for key, value := range map[string][]byte{"a": []byte("1"), "b": nil, odd: {0, 1, 0xff}, "long": bytes.Repeat([]byte("x"), 64<<10)} {
		check(t, s.SetValue(t.Context(), "one", key, value, room))
	}
	check(t, s.SetValue(t.Context(), "one", "a", []byte("2"), room))
	check(t, s.SetValue(t.Context(), "two", "a", []byte("other"), room))
	check(t, s.DeleteValue(t.Context(), "one", "never there"))
	check(t, s.DeleteValue(t.Context(), "none", "never there"))
	s = open()
	for key, want := range map[string][]byte{"a": []byte("2"), "b": {}, odd: {0, 1, 0xff}, "long": bytes.Repeat([]byte("x"), 64<<10)} {
		if got := must[[]byte](t)(s.Value(t.Context(), "one", key)); !bytes.Equal(got, want) {
			t.Errorf("%q is %.20q", key, got)
		}
	}
	check(t, s.DeleteValue(t.Context(), "one", "a"))
	if _, err := s.Value(t.Context(), "one", "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a deleted value: %v", err)
	}
	if got := must[[]byte](t)(s.Value(t.Context(), "two", "a")); string(got) != "other" {
		t.Errorf("the other instance has %q", got)
	}
	check(t, s.RemoveValues(t.Context(), "one"))
	check(t, s.RemoveValues(t.Context(), "none"))
	if left := must[store.Room](t)(s.ValueUsage(t.Context(), "one")); left != (store.Room{}) {
		t.Errorf("%+v is left", left)
	}
	if _, err := s.Value(t.Context(), "one", "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed value: %v", err)
	}
	if left := must[store.Room](t)(s.ValueUsage(t.Context(), "two")); left != (store.Room{Keys: 1, Bytes: 6}) {
		t.Errorf("the other instance: %+v", left)
	}
}

func valuesInOrder(t *testing.T, open Opener) {
	s := open()
	keys := []string{"", "a", "a\x00", "a/1", "a/2", "a/3", "a0", "b", "é", "\xfe", "\xff", "\xff\xff", "\xff\xffx"}
	for _, i := range []int{3, 1, 2, 0, 5, 4, 12, 11, 10, 9, 8, 7, 6} {
		check(t, s.SetValue(t.Context(), "one", keys[i], nil, store.Room{Keys: 100, Bytes: 1000}))
	}
	check(t, s.SetValue(t.Context(), "two", "a/9", nil, store.Room{Keys: 1, Bytes: 1000}))
	for _, c := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 100, keys[1:]}, // nothing comes after a key that is itself
		{"a/", "", 100, keys[3:6]},
		{"a/", "a/1", 100, keys[4:6]},
		{"a/", "a/1", 1, keys[4:5]},
		{"a/", "b", 100, nil},
		{"\xff", "", 100, keys[10:]},
		{"\xff\xff", "", 100, keys[11:]},
		{"c", "", 100, nil},
	} {
		if got := must[[]string](t)(s.ListValues(t.Context(), "one", c.prefix, c.after, c.limit)); !slices.Equal(got, c.want) {
			t.Errorf("prefix %q after %q: %q, want %q", c.prefix, c.after, got, c.want)
		}
	}
}

func valuesAreBounded(t *testing.T, open Opener) {
	s := open()
	room := store.Room{Keys: 3, Bytes: 100}
	check(t, s.SetValue(t.Context(), "one", "k1", bytes.Repeat([]byte("x"), 38), room))
	check(t, s.SetValue(t.Context(), "one", "k2", bytes.Repeat([]byte("x"), 38), room))
	for _, c := range []struct {
		name, key string
		size      int
		want      error
	}{
		{"a byte too much", "k3", 19, store.ErrNoRoom},
		{"as much as there is", "k3", 18, nil},
		{"one key too much", "k4", 0, store.ErrNoRoom},
		{"a longer one in its place", "k3", 19, store.ErrNoRoom},
		{"one as long", "k3", 18, nil},
		{"a shorter one", "k3", 1, nil},
	} {
		if err := s.SetValue(t.Context(), "one", c.key, []byte(strings.Repeat("y", c.size)), room); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	check(t, s.SetValue(t.Context(), "two", "k", nil, room))
	t.Run("room that has shrunk", func(t *testing.T) {
		small := store.Room{Keys: 1, Bytes: 10}
		if err := s.SetValue(t.Context(), "one", "k1", bytes.Repeat([]byte("x"), 39), small); !errors.Is(err, store.ErrNoRoom) {
			t.Errorf("a longer one: %v", err)
		}
		check(t, s.SetValue(t.Context(), "one", "k1", []byte("x"), small))
	})
}

// valueUsage compares the stored usage with the sum of the values, over random work.
func valueUsage(t *testing.T, open Opener) {
	s := open()
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		instance, want := fmt.Sprint("i", round), map[string][]byte{}
		room := store.Room{Keys: 4, Bytes: 60}
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			key := rapid.StringN(0, 3, 6).Draw(r, "key")
			if rapid.Bool().Draw(r, "delete") {
				check(t, s.DeleteValue(t.Context(), instance, key))
				delete(want, key)
				continue
			}
			value := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(r, "value")
			err := s.SetValue(t.Context(), instance, key, value, room)
			if err == nil {
				want[key] = value
			} else if !errors.Is(err, store.ErrNoRoom) {
				r.Fatal(err)
			}
		}
		var sum store.Room
		for key, value := range want {
			sum.Keys++
			sum.Bytes += int64(len(key) + len(value))
		}
		if got, err := s.ValueUsage(t.Context(), instance); err != nil || got != sum || sum.Keys > room.Keys || sum.Bytes > room.Bytes {
			r.Fatalf("usage is %+v, want %+v (%v)", got, sum, err)
		}
	})
}
