package main

import (
	"sync"
	"time"
)

// pauses are until when Telegram wants no messages in a chat.
type pauses struct {
	mu    sync.Mutex
	until map[int64]time.Time
}

const maxPauses = 10_000

func (p *pauses) hold(chat int64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil || len(p.until) >= maxPauses {
		p.until = map[int64]time.Time{}
	}
	p.until[chat] = time.Now().Add(wait)
}

// left is how long a chat has to wait.
func (p *pauses) left(chat int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[chat]
	if !ok {
		return 0
	}
	wait := time.Until(until)
	if wait <= 0 {
		delete(p.until, chat)
	}
	return max(wait, 0)
}
