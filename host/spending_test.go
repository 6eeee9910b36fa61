package host

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store/media"
)

func TestBreakerMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(breakers{func() []model.Status {
		return []model.Status{{Tier: "default", Provider: "openai", Model: "m", State: model.Open}, {Tier: "fast", Provider: "demo", State: model.Closed}}
	}})
	families, err := r.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "flynn_model_breaker" {
		t.Fatalf("families are %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		key := ""
		for _, l := range m.GetLabel() {
			key += l.GetValue() + " "
		}
		got[key] = m.GetGauge().GetValue()
	}
	if len(got) != 2 || got["m openai default "] != 2 || got[" demo fast "] != 0 {
		t.Errorf("gauges are %v", got)
	}
}

// TestImagesForModels reads images from the media store, but none that is too large for any model.
func TestImagesForModels(t *testing.T) {
	s, err := media.New(media.Config{Dir: t.TempDir(), MaxObject: 64 << 20, MaxTotal: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{media: s}
	small := []byte("\x89PNG\r\n\x1a\n")
	info, err := s.Put(t.Context(), media.Head{Name: "a.png"}, bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.openImage(t.Context(), info.Digest); err != nil || !bytes.Equal(got, small) {
		t.Errorf("image is %q, %v", got, err)
	}
	large, err := s.Put(t.Context(), media.Head{}, bytes.NewReader(append(small, make([]byte, model.MaxImage)...)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.openImage(t.Context(), large.Digest); err == nil || errors.Is(err, media.ErrNotFound) {
		t.Errorf("error for a large image is %v", err)
	}
	if _, err := h.openImage(t.Context(), strings.Repeat("0", 64)); !errors.Is(err, media.ErrNotFound) {
		t.Errorf("error for one that is not there is %v", err)
	}
}

// Background processes and files in the media store are among what is held.
func TestHeld(t *testing.T) {
	h := newHost(t, "")
	defer h.close()
	m, err := h.fleet.Host("tg:c:a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // the end of a run ends what runs on the host
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = h.fleet.Run(ctx)
	}()
	for range 2 {
		if _, err := m.Start(t.Context(), machine.Command{Script: "sleep 60"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.keepFile(t.Context(), "tg:eve", "a", strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	got, err := backend{h}.Held(t.Context())
	want := []gateway.Held{{Sender: "tg:eve", Media: 8 << 10}, {Processes: 2, HostProcesses: 2}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}
