package tui

import "testing"

// A view counts as shown when a frame was written after the renderer had it, and a piece of the scrollback is no frame.
func TestFrameWaitsForTheRenderer(t *testing.T) {
	s := &screen{}
	f := frame{screen: s}
	f.see(20)
	f.look()
	f.see(5) // the renderer has it before the next look
	s.written.Add(1)
	f.look()
	if f.tallest != 20 {
		t.Errorf("a write from before the renderer had the view counts: %d", f.tallest)
	}
	s.written.Add(1)
	f.printed++
	f.look()
	if f.tallest != 20 {
		t.Errorf("a printed piece counts as a frame: %d", f.tallest)
	}
	s.written.Add(1)
	f.see(5)
	f.look()
	if f.tallest != 5 {
		t.Errorf("the frame was written, and %d lines are taken", f.tallest)
	}
}
