package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

// modelDeadline bounds the answer of one model. A server that has to load its model first may take longer, which is no finding.
const modelDeadline = 10 * time.Second

// checkModels has the model of each tier answer one word, and compares what the configuration says about it with what its server says.
func checkModels(ctx context.Context, x *exam) {
	ctx, cancel := context.WithTimeout(ctx, modelDeadline)
	defer cancel()
	var wait sync.WaitGroup
	for _, tiers := range x.tiersByModel() {
		m := x.Config.Models[tiers[0]]
		switch {
		case m.Provider == setup.Demo:
		case x.lacks("models", tiers[0]):
			if x.Running != nil {
				x.unexamined("the model of %s, because only the running flynn has its key: flynn status shows its failures", named("tier", tiers))
			}
		default:
			wait.Go(func() { x.model(ctx, m, tiers) })
		}
	}
	wait.Wait()
}

// tiersByModel groups the tiers whose calls are alike, so that each model is asked once.
func (x *exam) tiersByModel() (groups [][]string) {
	type call struct {
		provider, model, url string
		key                  config.Secret
		reasoning            config.Reasoning
	}
	known := map[call]int{}
	for _, tier := range slices.Sorted(maps.Keys(x.Config.Models)) {
		m := x.Config.Models[tier]
		c := call{m.Provider, m.Model, m.BaseURL, m.APIKey, m.Reasoning}
		i, ok := known[c]
		if !ok {
			i, known[c] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], tier)
	}
	return groups
}

func (x *exam) model(ctx context.Context, m config.Model, tiers []string) {
	var listing setup.Listing
	var noList error
	var wait sync.WaitGroup
	wait.Go(func() { listing, noList = setup.List(ctx, m) })
	_, failure := prove.Model(ctx, m)
	wait.Wait()
	if off := offset(listing); off.Abs() > maxOffset {
		x.clock(off, "the server of tier "+tiers[0])
	}
	if failure != nil {
		answers := noList == nil || errors.Is(noList, setup.ErrNoList)
		x.modelFails(ctx, m, tiers, failure, answers, listing)
		return
	}
	x.window(ctx, m, tiers, listing)
}

// offset is how far this machine's clock is ahead of the server's, 0 if the server does not tell its time. The server answered at some
// moment between the two times of the request.
func offset(l setup.Listing) time.Duration {
	switch {
	case l.Date.IsZero():
	case l.Date.Before(l.Sent):
		return l.Sent.Sub(l.Date)
	case l.Date.After(l.Received):
		return l.Received.Sub(l.Date)
	}
	return 0
}

// modelFails reports why a model does not answer.
func (x *exam) modelFails(ctx context.Context, m config.Model, tiers []string, failure error, answers bool, l setup.Listing) {
	fault, words := prove.FaultOf(m, failure)
	slow := fault == prove.Slow || ctx.Err() != nil
	if fault == prove.Limited || slow && answers {
		x.unexamined("the model of %s, because it is busy: flynn model test %s waits longer", named("tier", tiers), tiers[0])
		return
	}
	f := Finding{Code: ModelFails, What: named("tier", tiers) + ": " + words, Mend: "see whether it passes", Command: "flynn model test " + tiers[0]}
	add := "flynn model add " + tiers[0]
	switch {
	case slow:
		f.Code, f.What = ModelUnreachable, named("tier", tiers)+": no answer within "+modelDeadline.String()
	case fault == prove.Unreachable:
		f.Code = ModelUnreachable
	case fault == prove.KeyRefused:
		f.Code, f.Mend, f.Command = ModelKeyRefused, "give the key again", add
		if m.APIKeyEnv != "" {
			f.Mend, f.Command = "put another key into the environment variable "+m.APIKeyEnv+" of flynn, or store one", add
		}
	case fault == prove.NoCredit:
		f.Code, f.Mend = ModelNoCredit, "top the account up"
	case fault == prove.NoSuchModel:
		f.Code, f.Mend, f.Command = ModelUnknown, "choose another", add
		if near := config.Nearest(m.Model, names(l)); near != "" && near != m.Model {
			f.Mend = fmt.Sprintf("the server has %q: write that, or choose another", near)
		}
	}
	x.at(f, "models", tiers[0])
}

func names(l setup.Listing) (all []string) {
	for _, m := range l.Models {
		all = append(all, m.Name)
	}
	return all
}

// window compares the context window of each tier with the one that the server has.
func (x *exam) window(ctx context.Context, m config.Model, tiers []string, l setup.Listing) {
	size, silent := 0, false
	if i := slices.IndexFunc(l.Models, func(e setup.ListedModel) bool { return setup.SameModel(e.Name, m.Model) }); i >= 0 {
		size = l.Models[i].Window
	}
	if size == 0 {
		size = setup.LoadedWindow(ctx, m)
		silent = size > 0
	}
	for _, tier := range tiers {
		told := x.Config.Models[tier].ContextWindow
		f := Finding{Code: ModelWindow, Mend: fmt.Sprintf("write context_window = %d", size)}
		switch {
		case size > 0 && told > size:
			f.What = fmt.Sprintf("tier %s: context_window is %d, and the server's is %d", tier, told, size)
		case silent && told == 0:
			f.What = fmt.Sprintf("tier %s: context_window is not set, and the server cuts off what is longer than %d tokens", tier, size)
		default:
			continue
		}
		x.at(f, "models", tier, "context_window")
	}
}

// named is "tier a" or "tiers a, b".
func named(what string, all []string) string {
	if len(all) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(all, ", ")
}
