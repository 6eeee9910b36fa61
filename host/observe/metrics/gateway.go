package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Gateway holds the metrics of HTTP requests and WebSockets.
type Gateway struct {
	Handler      http.Handler       // of /metrics
	Refused      prometheus.Counter // requests, for their Host or Origin
	FailedTokens prometheus.Counter
	Sockets      prometheus.Gauge // that are open
	Frames       *prometheus.CounterVec
	Resyncs      prometheus.Counter
	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
}

// Registry takes metrics and lists them; *prometheus.Registry does.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// NewGateway declares the metrics in reg, or takes over those that an earlier gateway declared there.
func NewGateway(reg Registry) (*Gateway, error) {
	m := &Gateway{
		Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flynn_gateway_requests_total", Help: "HTTP requests answered, by route and status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flynn_gateway_request_seconds", Help: "Time to answer an HTTP request, sockets excluded.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"route"}),
		Refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_refused_total", Help: "Requests refused for their Host or Origin.",
		}),
		FailedTokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_failed_tokens_total", Help: "Requests and sockets with a wrong token.",
		}),
		Sockets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flynn_gateway_sockets", Help: "WebSockets that are open.",
		}),
		Frames: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flynn_gateway_frames_total", Help: "Frames received on WebSockets, by type.",
		}, []string{"type"}),
		Resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_resyncs_total", Help: "Watchers that were too slow and read the history again.",
		}),
	}
	return m, errors.Join(
		register(reg, &m.requests), register(reg, &m.seconds), register(reg, &m.Refused),
		register(reg, &m.FailedTokens), register(reg, &m.Sockets), register(reg, &m.Frames), register(reg, &m.Resyncs),
	)
}

// register adds *c, or replaces it by the collector that an earlier gateway registered.
func register[C prometheus.Collector](reg Registry, c *C) error {
	err := reg.Register(*c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(C); ok {
			*c = old
			return nil
		}
	}
	return err
}

// Measure counts what next answers under the pattern of its route, so that labels stay few.
func (m *Gateway) Measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, code: http.StatusOK}
		began := time.Now()
		next.ServeHTTP(rec, r)
		route := r.Pattern
		if _, path, ok := strings.Cut(route, " "); ok {
			route = path
		}
		if route == "" {
			route = "none"
		}
		m.requests.WithLabelValues(route, strconv.Itoa(rec.code)).Inc()
		if rec.code != http.StatusSwitchingProtocols {
			m.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
		}
	})
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the WebSocket take the connection over.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
