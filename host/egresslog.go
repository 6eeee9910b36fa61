package host

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store"
)

// egressLog keeps what programs in sandboxes asked to reach. Nobody waits for it: what the store cannot take in time is
// dropped, counted and reported.
type egressLog struct {
	store   store.EgressLog
	log     *slog.Logger
	count   func(kind string, allowed bool)
	lose    func(n int)
	queue   chan store.EgressRecord
	dropped atomic.Int64
}

const (
	// egressQueue bounds the records that wait, egressBatch those that are committed together.
	egressQueue = 4096
	egressBatch = 512
	// egressPause collects records, so that a flood costs the disk no more than a few commits a second.
	egressPause = 200 * time.Millisecond
	// egressTimeout bounds one commit.
	egressTimeout = 10 * time.Second
	// maxEgressText bounds each text of a record.
	maxEgressText = 1 << 10
)

func newEgressLog(s store.EgressLog, m *metrics, log *slog.Logger) *egressLog {
	l := &egressLog{store: s, log: log, count: func(string, bool) {}, lose: func(int) {}, queue: make(chan store.EgressRecord, egressQueue)}
	if m != nil {
		l.count, l.lose = m.egressDecision, m.egressLost
	}
	return l
}

// decided notes a decision of a proxy.
func (l *egressLog) decided(session string, d egress.Decision) {
	l.count("proxy", d.Allowed)
	l.put(proxyRecord(session, d))
}

// ended notes how much an allowed request has carried.
func (l *egressLog) ended(session string, d egress.Decision) { l.put(proxyRecord(session, d)) }

func proxyRecord(session string, d egress.Decision) store.EgressRecord {
	r := store.EgressRecord{
		ID: d.ID, At: d.Time, Kind: "proxy", Session: session, Agent: agentOf(session), Method: d.Method, Host: clipText(d.Host), Port: d.Port,
		Allowed: d.Allowed, Reason: clipText(d.Reason), Credential: d.Credential, Up: d.Up, Down: d.Down, Ended: d.Ended,
	}
	for _, a := range d.Addrs {
		r.Addrs = append(r.Addrs, a.String())
	}
	return r
}

// agentOf is the last part of a session's key.
func agentOf(session string) string {
	i := strings.LastIndexByte(session, ':')
	if i < 0 {
		return ""
	}
	return session[i+1:]
}

func clipText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxEgressText)], "\uFFFD")
}

// put never waits.
func (l *egressLog) put(r store.EgressRecord) {
	select {
	case l.queue <- r:
	default:
		l.dropped.Add(1)
		l.lose(1)
	}
}

// run commits records until ctx ends, and then what is left.
func (l *egressLog) run(ctx context.Context) error {
	pause := time.NewTimer(egressPause)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case r := <-l.queue:
			pause.Reset(egressPause)
			select { // let others join it
			case <-pause.C:
			case <-ctx.Done():
			}
			l.commit(ctx, l.batch(r))
		case <-ctx.Done():
		}
	}
	for {
		select {
		case r := <-l.queue:
			l.commit(ctx, l.batch(r))
		default:
			return nil
		}
	}
}

// batch takes what waits, beginning with r.
func (l *egressLog) batch(r store.EgressRecord) []store.EgressRecord {
	batch := []store.EgressRecord{r}
	for len(batch) < egressBatch {
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

func (l *egressLog) commit(ctx context.Context, batch []store.EgressRecord) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), egressTimeout)
	defer cancel()
	if err := l.store.AddEgress(ctx, batch); err != nil {
		l.log.Error("the egress log cannot be written", "records", len(batch), "error", err)
		l.lose(len(batch))
	}
	if n := l.dropped.Swap(0); n > 0 {
		l.log.Warn("the egress log lacks records: they came faster than they could be written", "dropped", n)
	}
}
