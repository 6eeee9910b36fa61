package edit

import (
	"strings"
	"testing"
)

const listed = "# top\n\n# first\n[[policies]]\nname = \"a ]] \\\"\" # keep\n[policies.data]\nx = \"[[policies]]\"\n\n# second\n[[policies]]\nname = \"b\"\n\n[store]\ndir = \"d\"\n\n[[policies]]\nname = \"c\"\n"

func TestMove(t *testing.T) {
	for _, nl := range []string{"\n", "\r\n"} {
		for from := range 3 {
			for to := range 3 {
				text, err := Parse([]byte(strings.ReplaceAll(listed, "\n", nl)))
				if err != nil {
					t.Fatal(err)
				}
				if err := text.Move(to, "policies", element(from)); err != nil {
					t.Errorf("%d to %d: %v", from, to, err)
				}
				names := []string{"a ]] \"", "b", "c"}
				one := names[from]
				names = append(names[:from], names[from+1:]...)
				names = append(names[:to], append([]string{one}, names[to:]...)...)
				for i, want := range names {
					if got, _ := text.Get("policies", element(i), "name"); got != want {
						t.Errorf("%d to %d: element %d is %q, want %q", from, to, i, got, want)
					}
				}
				src := string(text.Bytes())
				for _, kept := range []string{"# top\n", "# first\n[[policies]]\nname = \"a ]] \\\"\" # keep\n[policies.data]\n", "# second\n[[policies]]\nname = \"b\"\n", "[store]\ndir = \"d\"\n"} {
					if !strings.Contains(src, strings.ReplaceAll(kept, "\n", nl)) {
						t.Errorf("%d to %d: %q is not in\n%s", from, to, kept, src)
					}
				}
				if strings.Count(src, "\n") != strings.Count(src, nl) {
					t.Errorf("line ends are mixed: %q", src)
				}
			}
		}
	}
	for _, c := range []struct {
		src string
		to  int
		key []string
	}{
		{listed, 3, []string{"policies", "[0]"}},
		{listed, -1, []string{"policies", "[0]"}},
		{listed, 0, []string{"policies", "[3]"}},
		{listed, 0, []string{"policies"}},
		{listed, 0, []string{"store", "dir"}},
		{"policies = [{name = \"a\"}, {name = \"b\"}]\n", 1, []string{"policies", "[0]"}},
	} {
		text, err := Parse([]byte(c.src))
		if err != nil {
			t.Fatal(err)
		}
		if err := text.Move(c.to, c.key...); err == nil || string(text.Bytes()) != c.src {
			t.Errorf("%v to %d: %v\n%s", c.key, c.to, err, text.Bytes())
		}
	}
}
