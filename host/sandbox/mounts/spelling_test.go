package mounts

import (
	"io/fs"
	"testing"
)

func TestSpelled(t *testing.T) {
	disk := map[string][]string{
		"/": {"Users", "private"}, "/Users": {"bob"}, "/Users/bob": {".ssh", "Code", "Straße", "cafe\u0301", "twin", "Twin"}, "/Users/bob/Code": {"a"},
	}
	names := func(folder string) ([]string, error) {
		if all, ok := disk[folder]; ok {
			return append([]string(nil), all...), nil
		}
		return nil, fs.ErrPermission
	}
	for path, want := range map[string]string{
		"/": "/", "/Users/bob/.ssh": "/Users/bob/.ssh", "/users/BOB/.SSH": "/Users/bob/.ssh", "/USERS/bob/code/A": "/Users/bob/Code/a",
		"/Users/bob/twin": "/Users/bob/twin", "/Users/bob/Twin": "/Users/bob/Twin", "/Users/bob/TWIN": "", "/Users/bob/caf\u00e9": "",
		"/private/x": "", "/Users/eve": "",
	} {
		if got, err := spelled(path, names); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
		}
	}
}
