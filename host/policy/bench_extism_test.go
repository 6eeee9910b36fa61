package policy

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// BenchmarkDecisionExtism is the same twenty rules as a plugin of Extism's, in C, as Extism calls one: no limits, and with a timeout.
func BenchmarkDecisionExtism(b *testing.B) {
	const folder = "testdata/bench/extism"
	plugin := buildC(b, folder+"/plugin/rules.c")
	program := filepath.Join(b.TempDir(), "extism")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = folder
	if said, err := build.CombinedOutput(); err != nil {
		need.Part(b, "extism", fmt.Errorf("%w: %s", err, said))
	}
	messages, want := ruleMessages()
	var questions bytes.Buffer
	for i, f := range messages {
		fmt.Fprintf(&questions, "%s\t%s\t%s\n", f.Message.Channel, f.Message.SenderKey(), want[i])
	}
	for name, timeout := range map[string]string{"no timeout": "0", "timeout 50ms": "50"} {
		b.Run(name, func(b *testing.B) {
			cmd := exec.Command(program, plugin, strconv.Itoa(b.N), timeout)
			cmd.Stdin = bytes.NewReader(questions.Bytes())
			out, err := cmd.CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			each, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(each, "ns/op")
		})
	}
}
