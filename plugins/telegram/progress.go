package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// progress keeps how far a send of several messages got when it stopped in the middle, so that the next try, perhaps of another
// process, does not repeat what people have seen.
type progress struct{ dir string }

const progressTime = 14 * 24 * time.Hour // longer than the host tries

func openProgress(dir string) (*progress, error) {
	p := &progress{filepath.Join(dir, "partial")}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for partial sends: %w", err)
	}
	list, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("look into the folder for partial sends: %w", err)
	}
	for _, entry := range list {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > progressTime {
			_ = os.Remove(filepath.Join(p.dir, entry.Name()))
		}
	}
	return p, nil
}

func (p *progress) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(p.dir, hex.EncodeToString(sum[:]))
}

// load returns the messages of a send that were delivered.
func (p *progress) load(key string) []string {
	text, err := os.ReadFile(p.path(key))
	if key == "" || err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// save keeps them.
func (p *progress) save(key string, ids []string, log *slog.Logger) {
	if key == "" || len(ids) == 0 {
		return
	}
	name := p.path(key)
	err := os.WriteFile(name+".new", []byte(strings.Join(ids, "\n")), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		log.Error("the next try of a message will repeat its first part", "key", key, "error", err)
	}
}

// drop forgets a send that is done.
func (p *progress) drop(key string) { _ = os.Remove(p.path(key)) }

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
