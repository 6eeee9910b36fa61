package plugin

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestShipped keeps the list of Flynn's own plugins in line with the folder that they lie in.
func TestShipped(t *testing.T) {
	need.Source(t)
	entries, err := os.ReadDir("../../plugins")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if _, err := os.Stat("../../plugins/" + e.Name() + "/plugin.toml"); err == nil {
			found = append(found, e.Name())
		}
	}
	if !slices.Equal(found, Shipped()) {
		t.Errorf("plugins/ holds %q, Shipped says %q", found, Shipped())
	}
}

// TestShippedRunEverywhere keeps Flynn's own plugins on the same platforms.
func TestShippedRunEverywhere(t *testing.T) {
	need.Source(t)
	want := []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"}
	for _, name := range Shipped() {
		m, err := readManifest("../../plugins/"+name, AllKinds())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(m.Exec)); !slices.Equal(got, want) {
			t.Errorf("%s runs on %q, want %q", name, got, want)
		}
	}
}

// TestMissingNames takes the name that was probably meant from what is there, and from Flynn's own plugins.
func TestMissingNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"telegram2", `plugin "telegram2" is not installed: did you mean "telegram"? run flynn plugin install DIR for it`},
		{"dice-tool", `plugin "dice-tool" is not installed: did you mean "dice-tools"?`},
		{"irc", `plugin "irc" is not installed: run flynn plugin install DIR`},
		{"wholly-other", `plugin "wholly-other" is not installed: run flynn plugin install DIR`},
		{"dice-tools", ""},
		{"mine", ""},
	} {
		err := missingFrom([]string{"dice-tools", "mine"}, c.name)
		if got := errorText(err); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
