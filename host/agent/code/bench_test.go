package code_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// BenchmarkCode has an agent of kind code solve the founding tasks in a whole host, and prints how many it solved and how long
// that took, from the message to the answer. The model is the demo provider, which writes the programs of the table. With
// FLYNN_BENCH_MODELS, the name of a file with [models.default] and what belongs to it, that model is given the tasks in words
// as well; nobody writes hostile programs for it.
//
//	just bench code
func BenchmarkCode(b *testing.B) {
	b.Run("start", benchStart)
	b.Run("demo", func(b *testing.B) { benchTasks(b, "[models.default]\nprovider = \"demo\"\n", true) })
	if models := benchModels(b); models != "" {
		b.Run("model", func(b *testing.B) { benchTasks(b, models, false) })
	}
}

// benchModels is the configuration of a real model, or "".
func benchModels(t testing.TB) string {
	t.Helper()
	name := os.Getenv("FLYNN_BENCH_MODELS")
	if name == "" {
		return ""
	}
	models, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(models)
}

// TestBenchModels has a provider that is not the demo solve a task of the benchmark, from a file that FLYNN_BENCH_MODELS names.
func TestBenchModels(t *testing.T) {
	solved := simpleTasks()[1]
	args, err := json.Marshal(map[string]string{"language": "python", "program": solved.program})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ provider, path string }{{"anthropic", ""}, {"openai", "/v1"}} {
		t.Run(c.provider, func(t *testing.T) {
			api := modeltest.New(t)
			api.Script(modeltest.Reply{Calls: []modeltest.Call{{ID: "c1", Name: "code__run", Args: string(args)}}}, modeltest.Reply{Text: "It is " + solved.want + "."})
			t.Setenv("BENCH_KEY", modeltest.Key)
			file := filepath.Join(t.TempDir(), "models.toml")
			text := fmt.Sprintf("[models.default]\nprovider = %q\nmodel = \"test\"\nbase_url = %q\napi_key_env = \"BENCH_KEY\"\n", c.provider, api.URL+c.path)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("FLYNN_BENCH_MODELS", file)
			h := serve(t, benchModels(t))
			if s := h.run("simple", []task{solved}, false); s.solved != 1 {
				t.Errorf("%d of %d are solved", s.solved, s.asks)
			}
			asked := api.Requests()
			if len(asked) != 2 || !strings.Contains(string(asked[0].Body), solved.ask) || !strings.Contains(string(asked[1].Body), solved.want) {
				t.Errorf("the model was asked %d times, the last time %s", len(asked), asked[len(asked)-1].Body)
			}
		})
	}
}

// score is what became of one set of tasks.
type score struct {
	set          string
	solved, asks int
	took         []time.Duration
}

func benchTasks(b *testing.B, models string, scripted bool) {
	secret := filepath.Join(b.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		b.Fatal(err)
	}
	h := serve(b, models)
	h.warm()
	for b.Loop() {
		scores := []*score{h.run("simple", simpleTasks(), scripted), h.run("medium", mediumTasks(), scripted)}
		if scripted {
			scores = append(scores, h.run("hostile, contained", hostileTasks(secret), true))
		}
		report(scores)
		for _, s := range scores {
			b.ReportMetric(100*float64(s.solved)/float64(s.asks), strings.Fields(strings.ReplaceAll(s.set, ",", ""))[0]+"-%")
			if scripted && s.solved < s.asks {
				b.Errorf("%s: %d of %d", s.set, s.solved, s.asks)
			}
		}
		b.ReportMetric(millis(quantile(scores[0].took, 0.5)), "p50-ms")
		b.ReportMetric(millis(quantile(scores[0].took, 0.95)), "p95-ms")
	}
	b.ReportMetric(0, "ns/op")
}

func report(scores []*score) {
	fmt.Printf("\n%d cores, milliseconds from the message to the answer\n", runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "passed\tof\t%\tp50\tp95\t ")
	for _, s := range scores {
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%.0f\t%.0f\t  %s\n", s.solved, s.asks, 100*float64(s.solved)/float64(s.asks),
			millis(quantile(s.took, 0.5)), millis(quantile(s.took, 0.95)), s.set)
	}
	w.Flush()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// benchStart compares a trivial program in a container from the pool with one in a container that is made for it.
func benchStart(b *testing.B) {
	e := sandboxtest.Engine(b)
	image := e.Python(b)
	m, config := e.Manager(b, func(c *sandbox.Config) {
		c.Log = slog.New(slog.DiscardHandler)
		c.Spec.Image = image
		c.Pools, c.PoolCPU = []sandbox.Pool{{Spec: spec.CodeSpec(c.Spec), Size: 1}}, 100
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ends with ctx
	defer func() { cancel(); <-done }()
	warm := spec.CodeSpec(config.Spec)
	cold := warm
	cold.PidsLimit++ // so that the pool has none of it
	times := map[string][]time.Duration{}
	for b.Loop() {
		for range 20 {
			for name, wanted := range map[string]spec.Spec{"pool": warm, "made": cold} {
				await(b, func() bool { return m.Stats().Pool.Ready == 1 })
				began := time.Now()
				r, err := m.RunCode(b.Context(), sandbox.Code{Spec: wanted, Language: "sh", Program: []byte("exit 0")})
				if err != nil || r.ExitCode != 0 {
					b.Fatalf("%+v (%v)", r.Result, err)
				}
				times[name] = append(times[name], time.Since(began))
			}
		}
	}
	fmt.Printf("\na program that does nothing, milliseconds: from the pool p50 %.1f p95 %.1f, in a container made for it p50 %.0f p95 %.0f\n",
		millis(quantile(times["pool"], 0.5)), millis(quantile(times["pool"], 0.95)), millis(quantile(times["made"], 0.5)), millis(quantile(times["made"], 0.95)))
	b.ReportMetric(millis(quantile(times["pool"], 0.5)), "pool-p50-ms")
	b.ReportMetric(millis(quantile(times["made"], 0.5)), "made-p50-ms")
	b.ReportMetric(0, "ns/op")
}

func await(t testing.TB, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) { // the engine's own pace
		if time.Now().After(deadline) {
			t.Fatal("not within a minute")
		}
	}
}

// served is a host that runs in this process.
type served struct {
	b    testing.TB
	base string
	key  string
	asks int
}

const benchConfig = `
[agent_configs.coder]
kind = "code"
[agent_configs.coder.code]
image = %q
timeout_seconds = 5
warm_pool = 2
[routing]
default_agent = "coder"
[sandbox]
enabled = true
[gateway]
listen = %q
[store]
dir = %q
`

func serve(b testing.TB, models string) *served {
	b.Helper()
	image := cmp.Or(os.Getenv("FLYNN_BENCH_IMAGE"), sandboxtest.Engine(b).Python(b))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	dir := b.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(benchConfig, image, address, filepath.Join(dir, "state"))+models), 0o600); err != nil {
		b.Fatal(err)
	}
	h, err := host.New(b.Context(), host.Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	u, err := url.Parse(h.URL())
	if err != nil {
		b.Fatal(err)
	}
	return &served{b: b, base: "http://" + address, key: strings.TrimPrefix(u.Fragment, "token=")}
}

// warm waits until the pool serves programs.
func (s *served) warm() {
	await(s.b, func() bool { return strings.Contains(s.call("GET", "/metrics", nil), "flynn_sandbox_pool_ready 2") })
}

func (s *served) call(method, path string, body any) string {
	s.b.Helper()
	var content []byte // of a GET there is none
	var err error
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			s.b.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, s.base+path, bytes.NewReader(content))
	if err != nil {
		s.b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.b.Fatal(err)
	}
	return string(text)
}

// answerTimeout bounds the wait for one answer; a model may think.
const answerTimeout = 3 * time.Minute

// run has the tasks solved, each in a conversation of its own.
func (s *served) run(set string, tasks []task, scripted bool) *score {
	result := &score{set: set}
	for _, c := range tasks {
		text := c.ask
		if scripted {
			text = "!py " + c.program
		}
		began := time.Now()
		answer := s.ask(text)
		result.took = append(result.took, time.Since(began))
		result.asks++
		if strings.Contains(answer, c.want) && !strings.Contains(answer, "of the host") {
			result.solved++
			continue
		}
		fmt.Printf("%s, %s: %.300q, want %q\n", set, c.name, answer, c.want)
	}
	return result
}

// ask says something in a new conversation and waits for the answer that ends the turn.
func (s *served) ask(text string) string {
	s.asks++
	conversation := fmt.Sprintf("task-%d", s.asks)
	s.call("POST", "/api/v1/conversations/web/"+conversation+"/messages", map[string]string{"id": conversation, "text": text})
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); time.Sleep(3 * time.Millisecond) {
		var entries gateway.Page[gateway.Entry]
		if json.Unmarshal([]byte(s.call("GET", "/api/v1/conversations/web/"+conversation+"/entries", nil)), &entries) != nil {
			continue
		}
		for _, e := range entries.Items {
			if e.Final() {
				return e.Text
			}
		}
	}
	return ""
}
