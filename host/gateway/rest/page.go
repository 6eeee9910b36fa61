package rest

import "github.com/flynnhost/flynn/host/gateway"

// Paging asks for a part of a list.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"2048" doc:"The next of the page before; without it the list begins"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

// whole makes an empty page [] and not null.
func whole[T any](p gateway.Page[T]) gateway.Page[T] {
	if p.Items == nil {
		p.Items = []T{}
	}
	return p
}

func wholeOr[T any](p gateway.Page[T], err error) (gateway.Page[T], error) { return whole(p), err }
