package code

import (
	"strings"
	"testing"
)

// A program's words about a path outside of its workspace are bounded, and never taken for one of its workspace.
func FuzzOutside(f *testing.F) {
	f.Add("FileNotFoundError: [Errno 2] No such file or directory: '/etc/x'")
	f.Add("PermissionError: [Errno 13] Permission denied: '/workspace/../x'")
	f.Add("Error: EACCES: permission denied, open '/proc/1/environ'")
	f.Fuzz(func(t *testing.T, text string) {
		path := outside([]byte(text), "/workspace")
		if path != "" && (path[0] != '/' || len(path) > 4*501 || strings.ContainsAny(path, "'\n") || strings.HasPrefix(path, "/workspace/")) {
			t.Errorf("%q", path)
		}
	})
}

func FuzzFileName(f *testing.F) {
	f.Add("../../etc/passwd")
	f.Add("")
	f.Add("../..")
	f.Fuzz(func(t *testing.T, name string) {
		clean := fileName(name)
		if clean == "" || len(clean) > 100 || strings.ContainsAny(clean, "/\x00") || clean[0] == '.' || clean[0] == '-' {
			t.Errorf("%q became %q", name, clean)
		}
	})
}
