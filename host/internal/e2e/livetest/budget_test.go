package livetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// TestBudgetOutlivesTheHost spends a sender's budget of dollars, ends the host the hard way, and asks the next one: only the sum in the
// store can tell it.
func TestBudgetOutlivesTheHost(t *testing.T) {
	t.Parallel()
	zone := fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) // where it is noon: no day ends in the middle of the test
	s := newSite(t, twoAgents+fmt.Sprintf(`
[models.default]
provider = "demo"
max_output_tokens = 100
prices = { input = 1.0, output = 1000.0 }
[models.complex]
provider = "demo"
[budgets]
sender_usd_per_day = 0.12
time_zone = %q
`, zone))
	s.start()
	s.send("main", "one", strings.Repeat("word ", 40)) // its answer costs 0.042 dollars or so
	if e := s.reply("main", 1); e.IsError {
		t.Fatalf("the first answer is %+v", e)
	}
	s.kill()
	s.start()
	s.send("main", "two", "hello")
	const want = "I could not answer this: your daily budget of 0.12 US dollars has no room for another answer. It is renewed on "
	there, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := time.Now().In(there).Zone()
	if e := s.reply("main", 2); !strings.HasPrefix(e.Text, want) || !strings.HasSuffix(e.Text, " at 00:00 "+name+".") {
		t.Errorf("the second answer is %+v", e)
	}
	sums := ask[[]gateway.UsageSum](s, "/api/v1/usage?by=sender")
	if len(sums) != 1 || sums[0].Key != "web:owner" || sums[0].Calls != 1 || sums[0].CostUSD == nil || *sums[0].CostUSD < 0.04 || *sums[0].CostUSD > 0.06 {
		t.Errorf("usage is %+v", sums)
	}
	s.eventually("the refusal is counted", func() error { return s.metric(`flynn_budget_full_total{level="sender"} 1`) })
	if m := s.status().Models; len(m) != 2 || m[0].State != "closed" {
		t.Errorf("models are %+v", m)
	}
}
