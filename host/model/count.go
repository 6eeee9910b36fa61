package model

import (
	"context"
	"math"
	"math/bits"
	"sync"

	"github.com/flynnhost/flynn/host/config"
)

// Rough guesses how many tokens a request is for most models. It is made to be scaled by what a model really counts; see Counts.
func Rough(req Request) int {
	if req.Rough > 0 {
		return req.Rough
	}
	q := quarters(req.System)
	for _, m := range req.Messages {
		q += 4 * (RoughMessage(m) + ImageTokens*imagesIn(m))
	}
	for _, t := range req.Tools {
		q += 64 + quarters(t.Name) + quarters(t.Description) + quarters(t.Schema)
	}
	return (q + 3) / 4
}

// RoughMessage is Rough for one message, its images left out.
func RoughMessage(m Message) int {
	q := 32 + quarters(m.Text)
	for _, c := range m.Calls {
		q += 64 + quarters(c.Name) + quarters(c.Args)
	}
	for _, r := range m.Results {
		q += 48 + quarters(r.Text)
	}
	for _, t := range m.Thinking {
		q += 32 + quarters(t.Text) + quarters(t.Data)
	}
	return (q + 3) / 4
}

// ImageTokens are those of an image that is as large as models look at.
const ImageTokens = 1600

// HasImages reports whether images go with a message.
func (m Message) HasImages() bool { return imagesIn(m) > 0 }

func imagesIn(m Message) int {
	n := len(m.Images)
	for _, r := range m.Results {
		n += len(r.Images)
	}
	return n
}

// quarters counts quarters of a token: four letters of English make a token, two digits or signs, and two bytes of most other
// writing. Whole conversations go through it with every call, so it looks at eight bytes at a time.
func quarters[T string | ~[]byte](text T) int {
	n, i := 2*len(text), 0
	for ; i+8 <= len(text); i += 8 {
		n -= letters(uint64(text[i]) | uint64(text[i+1])<<8 | uint64(text[i+2])<<16 | uint64(text[i+3])<<24 |
			uint64(text[i+4])<<32 | uint64(text[i+5])<<40 | uint64(text[i+6])<<48 | uint64(text[i+7])<<56)
	}
	var rest uint64 // a zero byte is no letter
	for ; i < len(text); i++ {
		rest = rest<<8 | uint64(text[i])
	}
	return n - letters(rest)
}

// letters counts those of eight bytes that are an ASCII letter or a space. A byte's highest bit tells the outcome of a comparison: with
// the other seven bits alone, no sum reaches the next byte.
func letters(eight uint64) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	low := eight &^ uint64(high)
	lower := low | ' '*each                                            // a letter's small one
	letter := (lower + (0x80-'a')*each) &^ (lower + (0x80-'z'-1)*each) // from 'a' on, and not past 'z'
	other := (low ^ ' '*each) + 0x7f*each                              // anything but a space
	return bits.OnesCount64((letter | ^other) &^ eight & high)
}

// Counts learns from the figures of providers how far Rough is off for each model. It outlives a Set: what was learnt does not
// depend on the configuration. The zero value knows nothing.
type Counts struct {
	mu     sync.Mutex
	scales map[string]float64
}

const (
	firstScale = 1.2 // cautious, as long as nothing is known
	minScale   = 0.2
	maxScale   = 8.0
	// margin keeps the guess above what the model counts, decay lets it come down slowly.
	margin = 1.05
	decay  = 0.125
	// leastLearnt is the smallest request to learn from: in smaller ones a provider's own words weigh too much.
	leastLearnt = 256
)

func (c *Counts) scale(model string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.scales[model]; ok {
		return s
	}
	return firstScale
}

// learn takes the figures of a call: up at once, down little by little.
func (c *Counts) learn(model string, rough int, u Usage) {
	counted := u.Input + u.CacheRead + u.CacheWrite
	if u.Estimated || rough < leastLearnt || counted <= 0 {
		return
	}
	seen := min(max(margin*float64(counted)/float64(rough), minScale), maxScale)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scales == nil {
		c.scales = map[string]float64{}
	}
	before, ok := c.scales[model]
	if !ok || seen > before {
		c.scales[model] = seen
		return
	}
	c.scales[model] = before + decay*(seen-before)
}

// countKey names a model for Counts: the same name elsewhere may count otherwise.
func countKey(cfg config.Model) string { return cfg.Provider + " " + cfg.BaseURL + " " + cfg.Model }

// count is a cautious guess at the tokens of a request.
func (t *tier) count(req Request) int { return t.scaled(Rough(req)) }

// scaled makes a count for the tier's model of what Rough guesses.
func (t *tier) scaled(rough int) int { return scaled(rough, t.counts.scale(countKey(t.cfg))) }

func scaled(rough int, scale float64) int { return int(math.Ceil(float64(rough) * scale)) }

// Count is a cautious guess at the tokens that a request is for the model of a tier.
func (s *Set) Count(name string, req Request) int {
	t, ok := s.tiers[name]
	if !ok {
		return scaled(Rough(req), firstScale)
	}
	if !t.cfg.Images {
		req = withImages(context.Background(), req, false)
	}
	return t.count(req)
}
