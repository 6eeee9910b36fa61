package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/search"
)

type webSearchArgs struct {
	Query string `json:"query"`
	Count int    `json:"count"`
	Fresh string `json:"fresh"`
}

func webSearch(s search.Services) tool.Tool {
	return function[webSearchArgs]{
		spec: tool.Spec{
			Name:        config.WebSearch,
			Description: "Search the web. Returns titles, addresses and excerpts; web.fetch reads a page.",
			Effect:      tool.Network,
			Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["query"],"properties":{
				"query":{"type":"string","minLength":1,"maxLength":%d},
				"count":{"type":"integer","minimum":1,"maximum":%d,"description":"of results; 5 if left out"},
				"fresh":{"enum":["day","week","month","year"],"description":"published within"}}}`, search.MaxQuery, search.MaxResults)),
		},
		rest: "Ask for fewer results.",
		run: func(ctx context.Context, call tool.Call, args webSearchArgs) (tool.Result, error) {
			if call.Pay == nil {
				return tool.Failure("there is no search here"), nil
			}
			q := search.Query{Text: args.Query, Count: args.Count, Fresh: args.Fresh}
			if q.Count == 0 {
				q.Count = 5
			}
			f, err := s.Find(ctx, q, call.Pay)
			if err != nil {
				return outcome(err)
			}
			return findingText(f), nil
		},
	}
}

// findingText tells a model what was found. The service has chosen the words about every page, so its host is labelled beside those of the pages.
func findingText(f search.Finding) tool.Result {
	var b strings.Builder
	if f.By == nil {
		empty := len(f.Passed) > 0 && !slices.ContainsFunc(f.Passed, func(e *search.Error) bool { return e.Kind != search.Empty })
		b.WriteString("no results")
		if !empty {
			b.WriteString(": the search failed. Tell the person why, in these words")
		}
		passed(&b, f)
		return tool.Result{Text: b.String(), IsError: !empty}
	}
	fmt.Fprintf(&b, "%d results of %s", len(f.Results), f.By.Name)
	labels := []string{"web:" + strings.ToLower(f.By.Host)}
	for i, r := range f.Results {
		fmt.Fprintf(&b, "\n\n%d. %s\n%s", i+1, r.Title, r.URL)
		for _, text := range []string{r.Published, r.Text} {
			if text != "" {
				b.WriteString("\n" + text)
			}
		}
		if label := hostLabel(r.URL); !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	b.WriteString("\n")
	passed(&b, f)
	return tool.Result{Text: b.String(), Labels: labels}
}

func passed(b *strings.Builder, f search.Finding) {
	for _, e := range f.Passed {
		fmt.Fprintf(b, "\n[%s]", e)
	}
}
