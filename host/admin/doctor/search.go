package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/tool/search"
)

// searchDeadline bounds the answer of one search service.
const searchDeadline = 12 * time.Second

// checkSearch has each search service search for one word.
func checkSearch(ctx context.Context, x *exam) {
	ctx, cancel := context.WithTimeout(ctx, searchDeadline)
	defer cancel()
	var wait sync.WaitGroup
	for i, s := range search.New(x.Config) {
		table, c := fmt.Sprintf("[%d]", i), x.Config.Search[i]
		if x.lacks("search", table) || c.Tier != "" && x.lacks("models", c.Tier) {
			if x.Running != nil {
				x.unexamined("the search service %s, because only the running flynn has its key: flynn status shows its failures", s.Name)
			}
			continue
		}
		wait.Go(func() { x.search(ctx, s, table) })
	}
	wait.Wait()
}

func (x *exam) search(ctx context.Context, s *search.Service, table string) {
	_, err := s.Search(ctx, search.Query{Text: "weather", Count: 1})
	if err == nil {
		return
	}
	f := Finding{Code: SearchFails, What: fmt.Sprintf("%s: no answer within %v", s.Name, searchDeadline), Mend: "check base_url, and that the service runs"}
	var fault *search.Error
	if errors.As(err, &fault) {
		f.What = fault.Error()
		switch fault.Kind {
		case search.NoKey:
			f.Code, f.Mend = SearchKeyRefused, "give the service's key again, whole"
		case search.Challenge:
			f.Code, f.Mend = SearchChallenged, "use a service with a key, or a SearXNG of your own"
		case search.Quota:
			f.Code, f.Mend = SearchQuotaSpent, "wait until it is renewed, top the account up, or add another service"
		case search.Empty:
			f.Code, f.Mend = SearchEmpty, "look at the service's own page: its engines may be switched off"
		case search.NoJSON:
			f.Mend = "add json to the formats below search in settings.yml of SearXNG, and restart it"
		}
	}
	x.at(f, "search", table)
}
