package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the gateway's own; the host puts its others into the same registry.
type metrics struct {
	handler      http.Handler
	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	refused      prometheus.Counter
	failedTokens prometheus.Counter
	sockets      prometheus.Gauge
	frames       *prometheus.CounterVec
	resyncs      prometheus.Counter
}

func newMetrics(reg *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flynn_gateway_requests_total", Help: "HTTP requests answered, by route and status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flynn_gateway_request_seconds", Help: "Time to answer an HTTP request, sockets excluded.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"route"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_refused_total", Help: "Requests refused for their Host or Origin.",
		}),
		failedTokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_failed_tokens_total", Help: "Requests and sockets with a wrong token.",
		}),
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flynn_gateway_sockets", Help: "WebSockets that are open.",
		}),
		frames: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flynn_gateway_frames_total", Help: "Frames received on WebSockets, by type.",
		}, []string{"type"}),
		resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_gateway_resyncs_total", Help: "Watchers that were too slow and read the history again.",
		}),
	}
	// The host keeps one registry while gateways come and go with the configuration.
	return m, errors.Join(
		register(reg, &m.requests), register(reg, &m.seconds), register(reg, &m.refused),
		register(reg, &m.failedTokens), register(reg, &m.sockets), register(reg, &m.frames), register(reg, &m.resyncs),
	)
}

// register adds *c, or replaces it by the collector that an earlier gateway registered.
func register[C prometheus.Collector](reg *prometheus.Registry, c *C) error {
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

// measure counts what next answers under the pattern of its route, so that labels stay few.
func (m *metrics) measure(next http.Handler) http.Handler {
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
