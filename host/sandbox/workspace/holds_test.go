package workspace

import (
	"slices"
	"testing"
)

func TestHolds(t *testing.T) {
	h := NewHolds()
	first := h.Enter("s")
	second := h.Enter("s")
	if _, ok := h.alone("s"); ok {
		t.Error("alone beside another")
	}
	second()
	second() // counts once
	done, ok := h.alone("s")
	if !ok {
		t.Fatal("not alone")
	}
	h.Enter("other")()
	var order []string
	entered := make(chan struct{})
	go func() {
		leave := h.Enter("s")
		order = append(order, "entered")
		leave()
		close(entered)
	}()
	if _, ok := h.alone("s"); ok {
		t.Error("alone twice")
	}
	order = append(order, "done")
	done()
	<-entered
	if !slices.Equal(order, []string{"done", "entered"}) {
		t.Errorf("order %v", order)
	}
	first()
	if len(h.bySession) != 0 {
		t.Errorf("%d sessions are left", len(h.bySession))
	}
	if _, ok := h.alone("s"); ok {
		t.Error("alone without having entered")
	}
}
