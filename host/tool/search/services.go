package search

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/model"
)

// none is for services whose statuses say all.
func none(int, string) Kind { return "" }

// searxng speaks the API of SearXNG (https://docs.searxng.org/dev/search_api.html). It has no limit of results and no keys.
func searxng() wire {
	return wire{
		encode: func(s *Service, q Query) request {
			query := url.Values{"q": {q.Text}, "format": {"json"}}
			if q.Fresh != "" {
				query.Set("time_range", q.Fresh)
			}
			r := request{path: "search", query: query}
			if s.key != "" { // of a proxy before it
				r.header = http.Header{"Authorization": {"Bearer " + s.key.Reveal()}}
			}
			return r
		},
		decode: func(_ *Service, body []byte) (f found, err error) {
			var a struct {
				Results []struct {
					URL, Title, Content string
					PublishedDate       string
				}
				Unresponsive json.RawMessage `json:"unresponsive_engines"` // pairs of a name and a reason
			}
			if err := json.Unmarshal(body, &a); err != nil {
				return f, err
			}
			for _, r := range a.Results {
				f.results = append(f.results, raw{r.URL, r.Title, r.Content, r.PublishedDate})
			}
			reasons := strings.ToLower(string(a.Unresponsive))
			for _, sign := range []string{"captcha", "suspended", "access denied", "too many requests"} {
				if strings.Contains(reasons, sign) {
					f.failed = Challenge // by the engines that it asks
				}
			}
			return f, nil
		},
		refusal: func(status int, _ string) Kind {
			switch status {
			case http.StatusForbidden:
				return NoJSON
			case http.StatusTooManyRequests:
				return Challenge // its limiter, which wants a browser
			}
			return ""
		},
	}
}

// brave speaks Brave's API (https://api-dashboard.search.brave.com/app/documentation).
func brave() wire {
	return wire{
		url: "https://api.search.brave.com/res/v1", price: 0.005, keyed: true,
		encode: func(s *Service, q Query) request {
			query := url.Values{"q": {q.Text}, "count": {strconv.Itoa(q.Count)}, "text_decorations": {"false"}, "result_filter": {"web"}}
			if q.Fresh != "" {
				query.Set("freshness", "p"+q.Fresh[:1])
			}
			return request{path: "web/search", query: query, header: http.Header{"X-Subscription-Token": {s.key.Reveal()}}}
		},
		decode: func(_ *Service, body []byte) (f found, err error) {
			var a struct {
				Web struct {
					Results []struct {
						URL, Title, Description string
						Age                     string `json:"page_age"`
					}
				}
			}
			if err := json.Unmarshal(body, &a); err != nil {
				return f, err
			}
			for _, r := range a.Web.Results {
				f.results = append(f.results, raw{r.URL, r.Title, r.Description, r.Age})
			}
			return f, nil
		},
		refusal: func(status int, code string) Kind {
			switch code {
			case "SUBSCRIPTION_TOKEN_INVALID", "SUBSCRIPTION_NOT_FOUND":
				return NoKey
			case "QUOTA_LIMITED", "RATE_LIMITED", "USAGE_LIMIT_EXCEEDED":
				return Quota
			}
			return ""
		},
	}
}

// tavily speaks Tavily's API (https://docs.tavily.com/documentation/api-reference/endpoint/search).
func tavily() wire {
	return wire{
		url: "https://api.tavily.com", price: 0.008, keyed: true,
		encode: func(s *Service, q Query) request {
			body := map[string]any{"query": q.Text, "max_results": q.Count, "search_depth": "basic"}
			if q.Fresh != "" {
				body["time_range"] = q.Fresh
			}
			return request{path: "search", body: body, header: http.Header{"Authorization": {"Bearer " + s.key.Reveal()}}}
		},
		decode: func(_ *Service, body []byte) (f found, err error) {
			var a struct {
				Results []struct {
					URL, Title, Content string
					Published           string `json:"published_date"`
				}
			}
			if err := json.Unmarshal(body, &a); err != nil {
				return f, err
			}
			for _, r := range a.Results {
				f.results = append(f.results, raw{r.URL, r.Title, r.Content, r.Published})
			}
			return f, nil
		},
		refusal: func(status int, _ string) Kind {
			if status == 432 || status == 433 { // the plan's limit, and that of paying as you go
				return Quota
			}
			return ""
		},
	}
}

// exa speaks Exa's API (https://exa.ai/docs/reference/search).
func exa() wire {
	return wire{
		url: "https://api.exa.ai", price: 0.007, keyed: true,
		encode: func(s *Service, q Query) request {
			body := map[string]any{"query": q.Text, "numResults": q.Count, "contents": map[string]any{"text": map[string]any{"maxCharacters": maxText}}}
			if days := map[string]int{"day": 1, "week": 7, "month": 31, "year": 366}[q.Fresh]; days > 0 {
				body["startPublishedDate"] = time.Now().UTC().AddDate(0, 0, -days).Format(time.RFC3339)
			}
			return request{path: "search", body: body, header: http.Header{"X-Api-Key": {s.key.Reveal()}}}
		},
		decode: func(_ *Service, body []byte) (f found, err error) {
			var a struct {
				Results []struct{ URL, Title, Text, PublishedDate string }
				Cost    struct{ Total float64 } `json:"costDollars"`
			}
			if err := json.Unmarshal(body, &a); err != nil {
				return f, err
			}
			for _, r := range a.Results {
				f.results = append(f.results, raw{r.URL, r.Title, r.Text, r.PublishedDate})
			}
			f.usage = model.Usage{CostUSD: min(max(a.Cost.Total, 0), maxCost)}
			return f, nil
		},
		refusal: none,
	}
}

// maxCost bounds what a service may say that a search costs, in US dollars.
const maxCost = 1
