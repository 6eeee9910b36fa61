package model

import (
	"context"
	"math"
	"math/bits"
	"sync"

	"github.com/flynnhost/flynn/host/config"
)

// Rough estimates how many tokens a request has for most models. Counts scales it by the figures of the model's provider.
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

// ImageTokens is the count of the largest image that models look at.
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

// quarters estimates quarters of a token: a token has four English letters, two digits or signs, or two bytes of most other scripts.
// Every call counts its whole conversation, so it reads eight bytes at a time.
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

// letters counts the ASCII letters and spaces among eight bytes. The highest bit of each byte holds the result of a comparison: sums of
// the other seven bits do not reach the next byte.
func letters(eight uint64) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	low := eight &^ uint64(high)
	lower := low | ' '*each                                            // letters in lower case
	letter := (lower + (0x80-'a')*each) &^ (lower + (0x80-'z'-1)*each) // from 'a' on, and not past 'z'
	other := (low ^ ' '*each) + 0x7f*each                              // anything but a space
	return bits.OnesCount64((letter | ^other) &^ eight & high)
}

// Counts learns from the figures of providers how far Rough is off for each model. It outlives a Set, as it does not depend on the
// configuration. The zero value is ready for use.
type Counts struct {
	mu     sync.Mutex
	scales map[string]float64
}

const (
	firstScale = 1.2 // cautious, before the first figures
	minScale   = 0.2
	maxScale   = 8.0
	// margin keeps the estimate above the model's count, decay lowers it slowly.
	margin = 1.05
	decay  = 0.125
	// leastLearnt is the smallest request to learn from: in smaller ones the provider's own prompt weighs too much.
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

// learn adjusts the scale to the figures of a call: up at once, down slowly.
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

// countKey names a model for Counts: a model of the same name on another server may count differently.
func countKey(cfg config.Model) string { return cfg.Provider + " " + cfg.BaseURL + " " + cfg.Model }

// scaled turns an estimate of Rough into one for the tier's model.
func (t *tier) scaled(rough int) int { return scaled(rough, t.counts.scale(countKey(t.cfg))) }

func scaled(rough int, scale float64) int { return int(math.Ceil(float64(rough) * scale)) }

// Count estimates cautiously how many tokens a request has for the model of a tier.
func (s *Set) Count(name string, req Request) int {
	t, ok := s.tiers[name]
	if !ok {
		return scaled(Rough(req), firstScale)
	}
	if !t.cfg.Images {
		req = withImages(context.Background(), req, false)
	}
	return t.scaled(Rough(req))
}
