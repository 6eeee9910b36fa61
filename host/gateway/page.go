package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// Page is a part of a list that may be long.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; there is none after the last"`
}

// ErrBadCursor is the error of a cursor that no page has given.
const ErrBadCursor = BadRequest("cursor: take the next of a page")

// NumberCursor reads a cursor that is a positive number; an empty one is 0.
func NumberCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n <= 0 {
		return 0, ErrBadCursor
	}
	return n, nil
}

// Hit is something that was said and found.
type Hit struct {
	Channel      string         `json:"channel"`
	Conversation string         `json:"conversation"`
	Title        string         `json:"title,omitempty"`
	Turn         string         `json:"turn"`
	Key          string         `json:"key,omitempty" doc:"Of the entry, as entries have it"`
	From         From           `json:"from"`
	Agent        string         `json:"agent"`
	Time         time.Time      `json:"time"`
	Parts        []turnlog.Part `json:"parts" doc:"An excerpt, in pieces"`
}

// Fork is where a new conversation leaves another one.
type Fork struct {
	Entry  string `json:"entry" minLength:"1" maxLength:"256" doc:"The key of an entry"`
	Before bool   `json:"before,omitempty" doc:"Leave out the turn of the entry, to say something else instead"`
}

// Forked is a new conversation that continues another one.
type Forked struct {
	ConversationName
	Files snapshot.Copied `json:"files" doc:"The files that it has of the other one"`
}

// Undo confirms what an undo of files changes.
type Undo struct {
	Code      string `json:"code" minLength:"1" maxLength:"16" doc:"Of the plan that a person has seen"`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Undo files that have changed since, too"`
}

// ConversationName names a conversation.
type ConversationName struct {
	Channel string `json:"channel"`
	ID      string `json:"id"`
}

// Position returns a cursor in a list that is ordered by time, latest first, and then by name. It stays right when items come and go.
func Position(at time.Time, name string) string { return fmt.Sprintf("%020d %s", at.UnixNano(), name) }

// Position returns the conversation's place in the list of conversations.
func (c ConversationInfo) Position() string { return Position(c.Last, c.Channel+":"+c.ID) }

// ConversationPage sorts conversations, and returns the part of them that a filter's cursor and limit choose.
func ConversationPage(list []ConversationInfo, f ConversationFilter) Page[ConversationInfo] {
	slices.SortFunc(list, func(a, b ConversationInfo) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Channel+":"+b.ID, a.Channel+":"+a.ID))
	})
	return PageFrom(list, f.Cursor, cmp.Or(f.Limit, max(len(list), 1)), ConversationInfo.Position)
}

// PageFrom returns the part of a list that a cursor and a limit choose. The list is ordered by the cursors of its items, latest first.
func PageFrom[T any](list []T, from string, limit int, cursor func(T) string) Page[T] {
	if from != "" {
		list = list[sort.Search(len(list), func(i int) bool { return cursor(list[i]) < from }):]
	}
	return PageOf(list, limit, cursor)
}

// PageOf makes a page of a list that was read with one element more than the limit, if there are more.
func PageOf[T any](list []T, limit int, cursor func(T) string) Page[T] {
	p := Page[T]{Items: list}
	if len(list) > limit {
		p.Items = list[:limit]
		p.Next = cursor(p.Items[limit-1])
	}
	if p.Items == nil {
		p.Items = []T{}
	}
	return p
}
