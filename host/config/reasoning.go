package config

import (
	"fmt"
	"strconv"
)

// Reasoning is how much a model thinks before it answers: "off", "low", "medium", "high", or a number of tokens. The zero value
// is off.
type Reasoning string

// The words for it.
const (
	ReasoningOff    Reasoning = "off"
	ReasoningLow    Reasoning = "low"
	ReasoningMedium Reasoning = "medium"
	ReasoningHigh   Reasoning = "high"
)

// The tokens that a word stands for.
const (
	lowReasoning    = 2 << 10
	mediumReasoning = 8 << 10
	highReasoning   = 24 << 10
	// minReasoning is the minimum of providers, maxReasoning exceeds the maximum of every model.
	minReasoning = 1 << 10
	maxReasoning = 128 << 10
)

// UnmarshalText reads a word or a number.
func (r *Reasoning) UnmarshalText(text []byte) error {
	switch word := Reasoning(text); word {
	case ReasoningOff, ReasoningLow, ReasoningMedium, ReasoningHigh:
		*r = word
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < minReasoning || n > maxReasoning {
		return unitError{fmt.Sprintf("%q is not an amount of reasoning", text),
			fmt.Sprintf(`write "off", "low", "medium", "high", or tokens from "%d" to "%d"`, minReasoning, maxReasoning)}
	}
	*r = Reasoning(strconv.Itoa(n))
	return nil
}

// On reports whether the model thinks at all.
func (r Reasoning) On() bool { return r != "" && r != ReasoningOff }

// Tokens bounds the thoughts.
func (r Reasoning) Tokens() int {
	switch r {
	case "", ReasoningOff:
		return 0
	case ReasoningLow:
		return lowReasoning
	case ReasoningMedium:
		return mediumReasoning
	case ReasoningHigh:
		return highReasoning
	}
	n, _ := strconv.Atoi(string(r)) // checked when it was read
	return n
}

// Counted reports whether it was given as a number of tokens.
func (r Reasoning) Counted() bool {
	return r.On() && r != ReasoningLow && r != ReasoningMedium && r != ReasoningHigh
}

// Effort is the word, or the nearest word for a number of tokens.
func (r Reasoning) Effort() string {
	switch n := r.Tokens(); {
	case !r.Counted():
		return string(r)
	case n < (lowReasoning+mediumReasoning)/2:
		return string(ReasoningLow)
	case n < (mediumReasoning+highReasoning)/2:
		return string(ReasoningMedium)
	}
	return string(ReasoningHigh)
}
