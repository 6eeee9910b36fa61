package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/sdk/need"
)

// described takes collectors and keeps their descriptions.
type described struct {
	*prometheus.Registry
	rows []string
}

var desc = regexp.MustCompile(`fqName: "(flynn_[^"]*)", help: "(.*?)", (?:unit: "[^"]*", )?constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

func (d *described) Register(c prometheus.Collector) error {
	list := make(chan *prometheus.Desc, 8)
	go func() { defer close(list); c.Describe(list) }()
	for one := range list {
		found := desc.FindStringSubmatch(one.String())
		if found == nil {
			continue // of the Go runtime and the process
		}
		var labels []string
		for _, l := range strings.Split(found[3]+","+found[4], ",") {
			if name, _, _ := strings.Cut(l, "="); name != "" {
				labels = append(labels, "`"+name+"`")
			}
		}
		row := fmt.Sprintf("| `%s` | %s | %s |", found[1], strings.Join(labels, ", "), strings.ReplaceAll(found[2], `\"`, `"`))
		if !slices.Contains(d.rows, row) {
			d.rows = append(d.rows, row)
		}
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // never fails
	}
}

// TestReference keeps docs/reference/metrics.md complete.
func TestReference(t *testing.T) {
	d := &described{Registry: prometheus.NewRegistry()}
	Subscribe(d, new(event.Bus))
	Observe(d, fixed{})
	if _, err := NewGateway(d); err != nil {
		t.Fatal(err)
	}
	slices.Sort(d.rows)
	need.Golden(t, "../../../docs/reference/metrics.md", "# Metrics\n\n"+
		"`GET /metrics` on the gateway has them for Prometheus. It wants the gateway's token: `authorization: {credentials_file: PATH}` in Prometheus's\n"+
		"configuration. Those of the Go runtime (`go_`) and of the process (`process_`) are there as well.\n\n"+
		"| Metric | Labels | Meaning |\n| --- | --- | --- |\n"+strings.Join(d.rows, "\n")+"\n")
}
