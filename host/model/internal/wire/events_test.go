package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// all reads a stream to its end, as name=data.
func all(stream io.Reader) (list []string, err error) {
	events := NewEvents(stream)
	for events.Next() {
		list = append(list, fmt.Sprintf("%s=%s", events.Name(), events.Data()))
	}
	return list, events.Err()
}

func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"none":                   {"", nil},
		"two":                    {"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", []string{"a=1", "b=2"}},
		"without a name":         {"data: 1\n\n", []string{"=1"}},
		"a name is not kept":     {"event: a\n\ndata: 1\n\n", []string{"=1"}},
		"without a space":        {"event:a\ndata:{\"b\":1}\n\n", []string{`a={"b":1}`}},
		"one space is no data":   {"data:  1 \n\n", []string{"= 1 "}},
		"lines of data":          {"data: 1\ndata: 2\n\n", []string{"=1\n2"}},
		"carriage returns":       {"event: a\r\ndata: 1\r\n\r\n", []string{"a=1"}},
		"comments, other fields": {": hello\nid: 7\nretry: 10\ndata: 1\nwhat\n\n", []string{"=1"}},
		"data that is empty":     {"event: a\ndata:\n\ndata\n\ndata: 1\n\n", []string{"=1"}},
		"blank lines":            {"\n\n\ndata: 1\n\n\n\n", []string{"=1"}},
		"cut off":                {"data: 1\n\ndata: 2\n", []string{"=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stream := range []io.Reader{strings.NewReader(test.stream), iotest.OneByteReader(strings.NewReader(test.stream))} {
				got, err := all(stream)
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("error %v, events (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestEventsOfABrokenStream(t *testing.T) {
	broken := errors.New("broken")
	got, err := all(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("events %q, error %v", got, err)
	}
}

// FuzzEvents wants the same of a stream however it arrives, and never more than it held.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"event: a\ndata: 1\ndata: 2\n\n", "data\r\n\r\n", ":\n\n", "event\n\ndata: \xff\n\n", "data:a", "\r\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		got, err := all(strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		slow, err := all(iotest.OneByteReader(strings.NewReader(stream)))
		if diff := cmp.Diff(got, slow); diff != "" || err != nil {
			t.Fatalf("error %v, byte by byte (-whole +slow):\n%s", err, diff)
		}
		if n := len(strings.Join(got, "")); n > len(stream) {
			t.Errorf("%d bytes of %d", n, len(stream))
		}
	})
}
