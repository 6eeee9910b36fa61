package docker

import (
	"slices"
	"strings"
	"testing"
)

// As engine 20.10 sends it.
const pullStream = `{"status":"Pulling from library/debian","id":"12"}
{"status":"Pulling fs layer","progressDetail":{},"id":"aaa"}
{"status":"Pulling fs layer","progressDetail":{},"id":"bbb"}
{"status":"Already exists","progressDetail":{},"id":"ccc"}
{"status":"Downloading","progressDetail":{"current":1048576,"total":3145728},"progress":"[==> ]","id":"aaa"}
{"status":"Downloading","progressDetail":{"current":1048577,"total":3145728},"progress":"[==> ]","id":"aaa"}
{"status":"Download complete","progressDetail":{},"id":"aaa"}
{"status":"Extracting","progressDetail":{"current":1,"total":3145728},"id":"aaa"}
{"status":"Pull complete","progressDetail":{},"id":"aaa"}
{"status":"Digest: sha256:1234"}
`

func TestPullProgress(t *testing.T) {
	var told []string
	if err := follow(strings.NewReader(pullStream), func(line string) { told = append(told, line) }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 of 1 layers", "0 of 2 layers", "1 of 3 layers", "1 of 3 layers, 1 of 3 MiB", "1 of 3 layers, 3 of 3 MiB",
		"2 of 3 layers, 3 of 3 MiB", "Digest: sha256:1234",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	err := follow(strings.NewReader(`{"status":"Waiting","id":"a"}{"error":"manifest unknown"}`), nil)
	if err == nil || err.Error() != "manifest unknown" {
		t.Errorf("got %v", err)
	}
}

func FuzzPullProgress(f *testing.F) {
	f.Add([]byte(pullStream))
	f.Add([]byte(`{"id":"a","status":"Downloading","progressDetail":{"current":-1,"total":9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		_ = follow(strings.NewReader(string(stream)), func(string) {})
	})
}
