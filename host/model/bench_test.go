package model

import (
	"strings"
	"testing"
)

// BenchmarkRough guesses the size of a long conversation: 1,000 messages of 400 bytes.
func BenchmarkRough(b *testing.B) {
	var req Request
	for range 1000 {
		req.Messages = append(req.Messages, Message{Role: User, Text: strings.Repeat("some words, 12 figures ", 17)})
	}
	for b.Loop() {
		Rough(req)
	}
}
