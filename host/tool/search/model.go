package search

import (
	"encoding/json"
	"net/http"

	"github.com/flynnhost/flynn/host/model"
)

// Bounds of a search by a model: what it reads of results, and what it writes, in tokens.
const (
	worstRead  = 60_000
	maxWritten = 2048
)

// task is what a model is asked to do. Its sources count, and its words only as excerpts of them.
func task(q Query) string {
	text := "Search the web once for the query below. Then say in one sentence for each useful result what it says, and cite it.\n"
	if q.Fresh != "" {
		text += "Prefer what was published within the last " + q.Fresh + ".\n"
	}
	return text + "Query: " + q.Text
}

// anthropic has a model of Anthropic search, by its tool web_search.
func anthropic() wire {
	return wire{
		url: "https://api.anthropic.com", price: 0.01, keyed: true,
		encode: func(s *Service, q Query) request {
			return request{
				path: "v1/messages", header: http.Header{"Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {s.key.Reveal()}},
				body: map[string]any{
					"model": s.model.Model, "max_tokens": maxWritten, "messages": []any{map[string]any{"role": "user", "content": task(q)}},
					"tools": []any{map[string]any{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}},
				},
			}
		},
		decode: decodeAnthropic, refusal: none,
	}
}

func decodeAnthropic(_ *Service, body []byte) (f found, err error) {
	var a struct {
		Content []struct {
			Type      string
			Content   json.RawMessage // of web_search_tool_result: results, or an error
			Citations []struct {
				URL   string
				Cited string `json:"cited_text"`
			}
		}
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
			Read   int `json:"cache_read_input_tokens"`
			Write  int `json:"cache_creation_input_tokens"`
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return f, err
	}
	f.usage = model.Usage{Input: a.Usage.Input, Output: a.Usage.Output, CacheRead: a.Usage.Read, CacheWrite: a.Usage.Write}
	cited := map[string]string{}
	for _, block := range a.Content {
		for _, c := range block.Citations {
			if len(cited[c.URL]) < maxText {
				cited[c.URL] += " " + c.Cited
			}
		}
		if block.Type != "web_search_tool_result" {
			continue
		}
		var results []struct {
			URL, Title string
			Age        string `json:"page_age"`
		}
		if json.Unmarshal(block.Content, &results) == nil {
			for _, r := range results {
				f.results = append(f.results, raw{URL: r.URL, Title: r.Title, Published: r.Age})
			}
			continue
		}
		var failed struct {
			Code string `json:"error_code"`
		}
		if err := json.Unmarshal(block.Content, &failed); err != nil {
			return f, err
		}
		f.failed = BadAnswer
		if failed.Code == "too_many_requests" {
			f.failed = Quota
		}
	}
	for i, r := range f.results {
		f.results[i].Text = cited[r.URL]
	}
	return f, nil
}

// openai has a model of OpenAI search, by the tool web_search of its Responses API.
func openai() wire {
	return wire{
		url: "https://api.openai.com/v1", price: 0.01, keyed: true,
		encode: func(s *Service, q Query) request {
			return request{
				path: "responses", header: http.Header{"Authorization": {"Bearer " + s.key.Reveal()}},
				body: map[string]any{
					"model": s.model.Model, "input": task(q), "max_output_tokens": maxWritten, "store": false,
					"tools": []any{map[string]any{"type": "web_search"}}, "include": []string{"web_search_call.action.sources"},
				},
			}
		},
		decode: decodeOpenAI,
		refusal: func(_ int, code string) Kind {
			if code == "insufficient_quota" {
				return Quota
			}
			return ""
		},
	}
}

func decodeOpenAI(_ *Service, body []byte) (f found, err error) {
	var a struct {
		Output []struct {
			Type   string
			Action struct{ Sources []struct{ URL string } }
			// of a message
			Content []struct {
				Text        string
				Annotations []struct {
					Type, URL, Title string
					Start            int `json:"start_index"`
					End              int `json:"end_index"`
				}
			}
		}
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return f, err
	}
	f.usage = model.Usage{Input: a.Usage.Input, Output: a.Usage.Output}
	var sources []raw
	for _, item := range a.Output {
		for _, s := range item.Action.Sources {
			sources = append(sources, raw{URL: s.URL})
		}
		for _, c := range item.Content {
			letters, from := []rune(c.Text), 0
			for _, n := range c.Annotations {
				if n.Type != "url_citation" {
					continue
				}
				start := min(max(n.Start, from), len(letters)) // the sentence before the citation
				f.results = append(f.results, raw{URL: n.URL, Title: n.Title, Text: string(letters[from:start])})
				from = min(max(n.End, start), len(letters))
			}
		}
	}
	f.results = append(f.results, sources...) // those that are cited come first
	return f, nil
}
