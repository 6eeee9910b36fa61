package gateway

// Page is a part of a list that can grow without bound.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one"`
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
