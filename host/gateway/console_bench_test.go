package gateway_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// BenchmarkFirstPaint opens the console with an empty cache: the time to the first contentful paint, and the bytes that were transferred.
func BenchmarkFirstPaint(b *testing.B) {
	window := browser(b)
	d := open(b, gatewaytest.Demo)
	var paint, bytes []float64
	for b.Loop() {
		p := visit(b, window, d)
		if _, err := chromedp.Call(p.ctx, network.ClearBrowserCache, cdp.Empty{}); err != nil {
			b.Fatal(err)
		}
		p.do(chromedp.Reload())
		p.connected()
		p.until(`performance.getEntriesByName("first-contentful-paint").length`)
		paint = append(paint, p.number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		bytes = append(bytes, p.number(`[...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")].reduce((sum, e) => sum + (e.name.includes("/api/") ? 0 : e.transferSize), 0)`))
		if err := chromedp.Cancel(p.ctx); err != nil { // a browser makes six connections to a host, and each open tab has one
			b.Fatal(err)
		}
	}
	b.ReportMetric(median(paint), "paint-ms")
	b.ReportMetric(median(bytes)/1000, "transferred-kB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMarkdown renders a mebibyte of the texts that take longest.
func BenchmarkMarkdown(b *testing.B) {
	window := browser(b)
	p := visit(b, window, open(b, gatewaytest.Demo))
	worst, work := map[string]float64{}, map[string]float64{}
	before := p.worked()
	for b.Loop() {
		for _, piece := range []string{"a", "[a](", "**a", "`", "- ", "> ", "|-", "\n- ", "\n> > ", "https://x.example/ ", "| a | b |\n| --- | --- |\n", "# a\n", "```\na\n```\n", "  - a\n"} {
			text := strconv.Quote(piece)
			ms := p.number(`import("/chat/markdown.js").then(({markdown}) => { const text = ` + text + `.repeat(Math.ceil(1048576 / ` + text + `.length));
				const out = document.createElement("div"); out.className = "agent"; const began = performance.now();
				out.append(markdown(text)); document.querySelector("#transcript").replaceChildren(out); out.getBoundingClientRect(); const ms = performance.now() - began;
				out.remove(); return ms; })`)
			after := p.worked()
			worst[piece], work[piece] = max(worst[piece], ms), max(work[piece], after-before)
			before = after
		}
	}
	most, busy := 0.0, 0.0
	for piece, ms := range worst {
		b.Logf("%q: %.0f ms, of which the processor was had for %.0f ms at most", piece, ms, work[piece])
		most, busy = max(most, ms), max(busy, work[piece])
	}
	b.ReportMetric(most, "worst-ms")
	b.ReportMetric(busy, "worst-cpu-ms")
	b.ReportMetric(0, "ns/op")
}

// worked is how many milliseconds of a processor the page's main thread has had, which other work of the machine does not change.
func (p pageDriver) worked() float64 {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{TimeDomain: "threadTicks"}); err != nil {
		p.fatal("measure: %v", err)
	}
	got, err := chromedp.Call(p.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		p.fatal("measure: %v", err)
	}
	for _, m := range got.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1000
		}
	}
	return 0
}

func (p pageDriver) number(expr string) float64 {
	p.t.Helper()
	n, err := strconv.ParseFloat(p.eval(expr), 64)
	if err != nil {
		p.fatal("%s: %v", expr, err)
	}
	return n
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
