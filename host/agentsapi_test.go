package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/route"
)

// ask asks the API of a host as its owner, and returns the status and the answer.
func ask(t *testing.T, h *Host, method, path string, body any) (int, string) {
	t.Helper()
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, rest.Prefix+path, strings.NewReader(text))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	rest.New(h.backend(), "", nil).ServeHTTP(w, r.WithContext(gateway.WithCaller(context.Background(), gateway.Caller{Sender: "web:owner", Role: route.Owner})))
	return w.Code, w.Body.String()
}

// answer asks and reads the answer.
func answer[T any](t *testing.T, h *Host, method, path string, body any) (out T) {
	t.Helper()
	code, text := ask(t, h, method, path, body)
	if code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return out
}

type keys = map[string]any

func TestSchedulesOverTheAPI(t *testing.T) {
	h, path := runHost(t, scheduledHost)
	for name, c := range map[string]struct {
		method, path string
		body         any
		code         int
		says         string
	}{
		"no times":          {"POST", "/schedules", keys{"name": "x", "text": "hi", "as": "terminal:owner"}, 422, "needs cron or every"},
		"a wrong cron":      {"POST", "/schedules", keys{"name": "x", "text": "hi", "as": "terminal:owner", "cron": "99 * * * *"}, 422, "schedules[1].cron"},
		"a wrong span":      {"POST", "/schedules", keys{"name": "x", "text": "hi", "as": "terminal:owner", "every": "soon"}, 422, "not a duration"},
		"nobody's agent":    {"POST", "/schedules", keys{"name": "x", "text": "hi", "as": "terminal:owner", "every": "1h", "agent": "none"}, 422, "none"},
		"a name with dots":  {"POST", "/schedules", keys{"name": "../x\u202e", "text": "hi", "as": "terminal:owner", "every": "1h"}, 422, "name"},
		"the same name":     {"POST", "/schedules", keys{"name": "report", "text": "hi", "as": "terminal:owner", "every": "1h"}, 409, "already"},
		"another key":       {"POST", "/schedules", keys{"name": "x", "text": "hi", "every": "1h", "role": "owner"}, 422, "role"},
		"nothing to change": {"PATCH", "/schedules/report", keys{}, 400, "say what"},
		"no reason":         {"PATCH", "/schedules/report", keys{"paused": true}, 400, "reason"},
		"a reason alone":    {"PATCH", "/schedules/report", keys{"reason": "x"}, 400, "reason"},
		"not paused":        {"PATCH", "/schedules/report", keys{"paused": false}, 409, "not paused"},
		"nobody's":          {"PATCH", "/schedules/none", keys{"text": "x"}, 404, "no schedule"},
		"remove nobody's":   {"DELETE", "/schedules/none", nil, 404, "no schedule"},
		"an empty text":     {"PATCH", "/schedules/report", keys{"text": ""}, 422, "text"},
		"a zone of nowhere": {"GET", "/schedules/preview?timing=0+7+*+*+*&zone=Mars/Olympus", nil, 400, "no time zone"},
		"a bad cursor":      {"GET", "/schedules/report/runs?limit=0", nil, 422, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, text := ask(t, h, c.method, c.path, c.body); code != c.code || !strings.Contains(text, c.says) {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	before, _ := os.ReadFile(path)
	if strings.Contains(string(before), "hi") {
		t.Fatalf("a refused edit is written:\n%s", before)
	}
	rude := "line\n[[schedules]]\nname = \"evil\"\n\x1b[2J\u202e\"\"\""
	made := answer[gateway.ScheduleStatus](t, h, "POST", "/schedules", keys{"name": "morning", "text": rude, "as": "terminal:owner", "cron": "0 7 * * 1-5", "timezone": "Europe/Berlin"})
	if made.Text != rude || made.Agent != "main" || made.Next.IsZero() || made.Timezone != "Europe/Berlin" {
		t.Errorf("made %+v", made)
	}
	changed := answer[gateway.ScheduleStatus](t, h, "PATCH", "/schedules/morning", keys{"every": "90m", "timezone": "", "paused": true, "reason": "on holiday \u202e"})
	if changed.Cron != "" || changed.Every != "1h30m0s" || changed.Paused != "web:owner: on holiday \u202e" || !changed.Next.IsZero() {
		t.Errorf("changed %+v", changed)
	}
	if code, text := ask(t, h, "PATCH", "/schedules/morning", keys{"paused": true, "reason": "again"}); code != 409 {
		t.Errorf("paused twice: %d %s", code, text)
	}
	var both sync.WaitGroup // of whom both succeed: edits come one after the other
	for i := range 4 {
		both.Go(func() {
			if code, text := ask(t, h, "POST", "/schedules", keys{"name": fmt.Sprint("n", i), "text": "x", "as": "terminal:owner", "every": "1h"}); code != 201 {
				t.Errorf("%d: %d %s", i, code, text)
			}
		})
	}
	both.Wait()
	if code, text := ask(t, h, "DELETE", "/schedules/morning", nil); code != 204 {
		t.Errorf("%d %s", code, text)
	}
	if list := answer[[]gateway.ScheduleStatus](t, h, "GET", "/schedules", nil); len(list) != 5 {
		t.Errorf("%d schedules", len(list))
	}
	for range 3 {
		answer[gateway.ScheduleRun](t, h, "POST", "/schedules/report/runs", nil)
		eventually(t, "the run is done", func() bool {
			return answer[gateway.Page[gateway.ScheduleRun]](t, h, "GET", "/schedules/report/runs?limit=1", nil).Items[0].State == "done"
		})
	}
	first := answer[gateway.Page[gateway.ScheduleRun]](t, h, "GET", "/schedules/report/runs?limit=2", nil)
	rest := answer[gateway.Page[gateway.ScheduleRun]](t, h, "GET", "/schedules/report/runs?limit=2&cursor="+first.Next, nil)
	if len(first.Items) != 2 || len(rest.Items) != 1 || rest.Next != "" || rest.Items[0].Event == first.Items[1].Event {
		t.Errorf("pages %+v, %+v", first, rest)
	}
}

func TestAgentsAndRoutingOverTheAPI(t *testing.T) {
	h, _ := runHost(t, `
[routing]
default_agent = "main"
selectable = ["coder"]
[routing.senders]
"irc:ann" = "coder"
"irc:b*" = "main"
[routing.channels]
irc = "coder"
[agent_configs.main]
delegates = ["coder"]
tokens_per_day = 100_000
[agent_configs.coder]
tool_profile = "coding"
system_prompt = "Be kind. \u202e"
[channels.irc]
plugin = "none"
enabled = false
`)
	list := answer[[]gateway.AgentSummary](t, h, "GET", "/agents", nil)
	if len(list) != 2 || list[0].Name != "coder" || !list[1].Default || list[0].Kind != "chat" || list[0].Model != "demo" {
		t.Fatalf("%+v", list)
	}
	coder := answer[gateway.AgentDetail](t, h, "GET", "/agents/coder", nil)
	var shell gateway.AgentTool
	for _, tl := range coder.Offered {
		if tl.Name == "shell.exec" {
			shell = tl
		}
	}
	if shell.Channel.Action != "ask" || shell.Channel.Where != "host" || shell.Local.Action != "ask" || len(shell.Channel.Reasons) != 1 || coder.System != "Be kind. \u202e" ||
		coder.SelectableBy != "member" || coder.DelegatedBy[0] != "main" || len(coder.Offered) != coder.Tools {
		t.Errorf("%+v", coder)
	}
	main := answer[gateway.AgentDetail](t, h, "GET", "/agents/main", nil)
	if main.Budget.TokensLeft == nil || *main.Budget.TokensLeft != 100_000 || main.Delegates[0] != "coder" || main.Where != nil {
		t.Errorf("%+v", main)
	}
	if code, _ := ask(t, h, "GET", "/agents/..%2f", nil); code != 404 {
		t.Errorf("no agent: %d", code)
	}

	table := answer[gateway.RoutingTable](t, h, "GET", "/routing", nil)
	if len(table.Rules) != 4 || table.Rules[0].Tier != route.TierSender || table.Rules[3].Tier != route.TierDefault || table.Choices[0].Least != "member" {
		t.Errorf("%+v", table)
	}
	type e = gateway.RouteExplanation
	if got := answer[e](t, h, "POST", "/routing/try", keys{"channel": "irc", "sender": "ann", "text": "hi"}); got.Agent != "coder" || got.Tier != "sender" || got.Admission != "not_listed" || got.Role != "guest" {
		t.Errorf("%+v", got)
	}
	if got := answer[e](t, h, "POST", "/routing/try", keys{"channel": "web", "sender": "owner", "kind": "dm", "text": strings.Repeat("\u202e\x1b", 999)}); got.Agent != "main" || got.Admission != "allowed" || got.Role != "owner" {
		t.Errorf("%+v", got)
	}
	for name, body := range map[string]keys{
		"no channel": {"channel": "irk", "sender": "x"}, "no sender": {"channel": "irc", "sender": ""}, "no kind": {"channel": "irc", "sender": "x", "kind": "crowd"},
		"a claimed role": {"channel": "irc", "sender": "x", "role": "owner"},
	} {
		if code, text := ask(t, h, "POST", "/routing/try", body); code != 400 && code != 422 {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if rows, err := h.store.PendingInbox(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("something is stored: %v, %v", rows, err)
	}
}

func TestModelsUsageAndBudgetsOverTheAPI(t *testing.T) {
	h, _ := runHost(t, `
[routing]
default_agent = "main"
[agent_configs.main]
[models.default]
provider = "demo"
[models.fast]
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:1/v1"
[budgets]
sender_tokens_per_day = 5000
host_usd_per_day = 2.5
time_zone = "Europe/Berlin"
`)
	tiers := answer[[]gateway.ModelTier](t, h, "GET", "/models", nil)
	if len(tiers) != 2 || tiers[0].Prices == nil || tiers[1].Prices != nil || tiers[0].Agents[0] != "main" || tiers[1].State != "closed" {
		t.Fatalf("%+v", tiers)
	}
	if got := answer[gateway.ModelTest](t, h, "POST", "/models/default/test", nil); !got.Works || got.CostUSD == nil || *got.CostUSD != 0 {
		t.Errorf("%+v", got)
	}
	if got := answer[gateway.ModelTest](t, h, "POST", "/models/fast/test", nil); got.Works || got.Fault != "nothing answers" || got.CostUSD != nil || !strings.Contains(got.Detail, "127.0.0.1:1") {
		t.Errorf("%+v", got)
	}
	if code, _ := ask(t, h, "POST", "/models/none/test", nil); code != 404 {
		t.Errorf("no tier: %d", code)
	}
	rows, err := h.store.ListUsage(t.Context(), usage.Filter{})
	if err != nil || len(rows) != 2 || rows[0].Task != "model_test" || rows[0].Sender != "web:owner" || rows[1].Failure != "unreachable" {
		t.Errorf("rows %+v, %v", rows, err)
	}
	now := time.Now()
	var year []usage.Row
	for d := range 365 {
		for s := range 10 {
			year = append(year, usage.Row{At: now.AddDate(0, 0, -d), Day: "x", Sender: "irc:\u202e", Agent: fmt.Sprint("a", s), Provider: "p", Model: "m", Attempt: 1, Input: 9})
		}
	}
	if err := h.store.AddUsage(t.Context(), year); err != nil {
		t.Fatal(err)
	}
	series := answer[gateway.UsageSeries](t, h, "GET", "/usage/series?by=agent&step=day&zone=Europe/Berlin&top=3&since="+now.AddDate(0, 0, -364).UTC().Format(time.RFC3339), nil)
	if len(series.Series) != 4 || !series.Series[3].Rest || len(series.Starts) < 365 || len(series.Series[0].Points) != len(series.Starts) || series.Series[0].Sum.CostUSD != nil {
		t.Errorf("%d lines, %d days, %+v", len(series.Series), len(series.Starts), series.Series[0].Sum)
	}
	for _, query := range []string{"step=hour&since=2001-01-01T00:00:00Z", "zone=Local", "zone=../etc", "by=day", "top=99", "since=2090-01-01T00:00:00Z"} {
		if code, text := ask(t, h, "GET", "/usage/series?"+query, nil); code != 400 && code != 422 {
			t.Errorf("%s: %d %.200s", query, code, text)
		}
	}
	b := answer[gateway.Budgets](t, h, "GET", "/budgets", nil)
	if b.Zone != "Europe/Berlin" || len(b.Unpriced) != 1 || b.Host.USDLimit == nil || *b.Host.USDLeft != 2.5 || b.Host.TokensLimit != nil || len(b.Agents) != 1 || b.Agents[0].USDLimit != nil {
		t.Errorf("%+v", b)
	}
	senders := answer[gateway.Page[gateway.Budget]](t, h, "GET", "/budgets/senders?limit=1", nil)
	if len(senders.Items) != 1 || senders.Items[0].TokensLeft == nil {
		t.Errorf("%+v", senders)
	}
}

func TestNotesOverTheAPI(t *testing.T) {
	h, _ := runHost(t, scheduledHost)
	for i := range 300 {
		err := h.store.WriteNote(t.Context(), memory.Note{
			Agent: "main", Person: "irc:ann", Key: fmt.Sprintf("k%03d\u202e", i), Text: "cat \x1b[2J '\" OR 1", By: "irc:bob", Turn: "t1", Updated: time.Now(), Labels: []string{"web:x"},
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	type page = gateway.Page[memory.Note]
	seen, cursor := 0, ""
	for {
		p := answer[page](t, h, "GET", "/memory/notes?q=cat&agent=main&limit=70&cursor="+cursor, nil)
		if seen += len(p.Items); p.Next == "" {
			break
		}
		cursor = p.Next
	}
	if seen != 300 {
		t.Errorf("%d notes", seen)
	}
	n := answer[page](t, h, "GET", "/memory/notes?person=irc:ann&limit=1", nil).Items[0]
	mended := answer[memory.Note](t, h, "PATCH", fmt.Sprint("/memory/notes/", n.ID), keys{"was": n.Text, "text": "a dog"})
	if mended.Text != "a dog" || mended.MendedBy != "web:owner" || mended.By != "irc:bob" || mended.Turn != "t1" || len(mended.Labels) != 1 {
		t.Errorf("%+v", mended)
	}
	for name, c := range map[string]struct {
		method, path string
		body         any
		code         int
	}{
		"another text by now": {"PATCH", fmt.Sprint("/memory/notes/", n.ID), keys{"was": n.Text, "text": "x"}, 409},
		"no note":             {"PATCH", "/memory/notes/999999", keys{"was": "", "text": "x"}, 404},
		"an empty text":       {"PATCH", fmt.Sprint("/memory/notes/", n.ID), keys{"was": "a dog", "text": ""}, 422},
		"a long text":         {"PATCH", fmt.Sprint("/memory/notes/", n.ID), keys{"was": "a dog", "text": strings.Repeat("x", 16385)}, 422},
		"a mebibyte":          {"PATCH", fmt.Sprint("/memory/notes/", n.ID), keys{"was": "a dog", "text": strings.Repeat("x", 1<<20)}, 413},
		"a cursor of nobody":  {"GET", "/memory/notes?cursor=1;DROP", nil, 400},
		"both":                {"GET", "/memory/notes?person=x&shared=true", nil, 400},
		"search syntax":       {"GET", "/memory/notes?q=%22+OR+NEAR(", nil, 200},
	} {
		if code, text := ask(t, h, c.method, c.path, c.body); code != c.code {
			t.Errorf("%s: %d %.200s", name, code, text)
		}
	}
}
