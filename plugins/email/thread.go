package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/hostapi"
)

// A conversation is a thread with one person. Its id contains the person's id and that of the thread: anyone else who knows the ids of its
// mails and answers them begins a new conversation, and learns nothing of this one.

// digest returns the beginning of a hash, in hex.
func digest(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

// ourID matches the ids of our mails, which name the conversation, for programs that answer with In-Reply-To only.
var ourID = regexp.MustCompile(`^<flynn-[0-9a-f]{24}\.([0-9a-f]{16})@([^@>]+)>$`)

// outgoingID returns the Message-ID of the send with this key: the same at every try.
func outgoingID(key, conversation, address string) string {
	_, thread := splitConversation(conversation)
	return "<flynn-" + digest(12, key, conversation) + "." + thread + "@" + domain(address) + ">"
}

// threadOf identifies the thread of a mail: by a mail of ours in it, or by its first one.
func (l *letter) threadOf(address, eventID string) string {
	for _, id := range slices.Backward(l.Thread) {
		if m := ourID.FindStringSubmatch(id); m != nil && m[2] == domain(address) {
			return m[1]
		}
	}
	root := eventID
	if len(l.Thread) > 0 {
		root = l.Thread[0]
	} else if l.ID != "" {
		root = l.ID
	}
	return digest(8, root)
}

var conversationID = regexp.MustCompile(`^(\S{1,240})/([0-9a-f]{16})$`)

// splitConversation takes an id apart.
func splitConversation(id string) (sender, thread string) {
	m := conversationID.FindStringSubmatch(id)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// thread is the stored state of a conversation, needed to answer in it.
type thread struct {
	To      string    `json:"to"`      // the person's address
	Subject string    `json:"subject"` // without Re:
	IDs     []string  `json:"ids"`     // of the mails in it, the first and the last ones
	At      time.Time `json:"at"`      // of the last one
}

// add appends the id of a mail.
func (t *thread) add(id string) {
	if id == "" || slices.Contains(t.IDs, id) {
		return
	}
	if t.IDs = append(t.IDs, id); len(t.IDs) > maxIDs {
		t.IDs = append(t.IDs[:1:1], t.IDs[len(t.IDs)-maxIDs+1:]...)
	}
}

// threads are the conversations in the host's map.
type threads struct{ host *hostapi.Host }

const (
	threadPrefix = "thread/"
	// maxThreads bounds the conversations that are remembered.
	maxThreads = 2000
)

func threadKey(conversation string) string { return threadPrefix + digest(16, conversation) }

func (s threads) get(ctx context.Context, conversation string) (t thread, found bool, err error) {
	value, found, err := s.host.Get(ctx, threadKey(conversation))
	if err != nil || !found {
		return t, false, err
	}
	if err := json.Unmarshal(value, &t); err != nil {
		return t, false, fmt.Errorf("read what is remembered of a conversation: %w", err)
	}
	return t, true, nil
}

func (s threads) put(ctx context.Context, conversation string, t thread) error {
	value, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return s.host.Set(ctx, threadKey(conversation), value)
}

// forget removes the conversations that have been silent for longest, beyond maxThreads.
func (s threads) forget(ctx context.Context, limit int) error {
	keys, err := s.host.Keys(ctx, threadPrefix)
	if err != nil || len(keys) <= limit {
		return err
	}
	at := map[string]time.Time{}
	for _, key := range keys {
		value, _, err := s.host.Get(ctx, key)
		if err != nil {
			return err
		}
		var t thread
		_ = json.Unmarshal(value, &t) // an unreadable one counts as the oldest
		at[key] = t.At
	}
	slices.SortFunc(keys, func(a, b string) int { return at[a].Compare(at[b]) })
	for _, key := range keys[:len(keys)-limit*9/10] {
		if err := s.host.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// repeated are the prefixes that programs add to the subject of an answer.
var repeated = regexp.MustCompile(`(?i)^(?:(?:re|aw|sv|antw|ref|rif)(?:\[\d+\])?\s*:\s*)+`)

// topic returns a subject without them.
func topic(subject string) string { return strings.TrimSpace(repeated.ReplaceAllString(subject, "")) }
