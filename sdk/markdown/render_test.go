package markdown_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/sdk/markdown"
)

var update = flag.Bool("update", false, "write the golden files")

var dialects = map[string]markdown.Dialect{
	"plain": markdown.Plain, "telegram": markdown.TelegramHTML, "slack": markdown.Slack,
	"discord": markdown.Discord, "whatsapp": markdown.WhatsApp, "html": markdown.HTML,
}

func TestGolden(t *testing.T) {
	source, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			got, path := markdown.Render(string(source), d)+"\n", filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
