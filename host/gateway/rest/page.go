package rest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// Paging asks for a part of a list.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"2048" doc:"The next of the page before; without it the list begins"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

// position is a cursor in a list that is ordered by time, latest first, and then by name. It stays right when items come and go.
func position(at time.Time, name string) string { return fmt.Sprintf("%020d %s", at.UnixNano(), name) }

// paged returns the part of a list that a cursor and a limit choose. at returns the cursor of an item.
func paged[T any](list []T, p Paging, at func(T) string) gateway.Page[T] {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(at(b), at(a)) })
	if p.Cursor != "" {
		i := slices.IndexFunc(list, func(v T) bool { return at(v) < p.Cursor })
		if i < 0 {
			i = len(list)
		}
		list = list[i:]
	}
	page := gateway.Page[T]{Items: list[:min(len(list), p.Limit)]}
	if len(list) > p.Limit {
		page.Next = at(list[p.Limit-1])
	}
	return whole(page)
}

// whole makes an empty page [] and not null.
func whole[T any](p gateway.Page[T]) gateway.Page[T] {
	if p.Items == nil {
		p.Items = []T{}
	}
	return p
}

func wholeOr[T any](p gateway.Page[T], err error) (gateway.Page[T], error) { return whole(p), err }
