package rest

import "github.com/flynnhost/flynn/host/gateway"

// Paging is the part of a request that chooses a page of a list.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"1024" doc:"next of the page before; empty for the first page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

const badCursor = gateway.BadRequest("the cursor is none that this list gave")
