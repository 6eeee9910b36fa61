package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// months is a store, and a connection of an administrator.
type months struct {
	*testing.T
	*Store
	conn *pgx.Conn
}

func newMonths(t *testing.T) months {
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	s, err := Open(t.Context(), Address{url, "FLYNN_STORE"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return months{t, s, conn}
}

func (m months) do(query string, args ...any) {
	m.Helper()
	if _, err := m.conn.Exec(m.Context(), query, args...); err != nil {
		m.Fatalf("%s: %v", query, err)
	}
}

// count returns the rows of a query, which are numbers.
func (m months) count(query string, args ...any) (n int) {
	m.Helper()
	if err := m.conn.QueryRow(m.Context(), query, args...).Scan(&n); err != nil {
		m.Fatalf("%s: %v", query, err)
	}
	return n
}

// fill adds a row on each day from a time to another.
func (m months) fill(from, to time.Time) (n int) {
	for at := from; at.Before(to); at = at.AddDate(0, 0, 1) {
		m.do("INSERT INTO audit (at, kind, subject, actor, session, agent, tool, turn, detail) VALUES ($1, '', '', '', '', '', '', '', '')", at.UnixNano())
		n++
	}
	return n
}

const partitions = `SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit'::regclass`

func (m months) prune(upTo time.Time, want int) {
	m.Helper()
	gone, err := m.Prune(m.Context(), store.Retention{Audit: upTo})
	if err != nil || gone["audit"] != want {
		m.Fatalf("pruned %v (%v), want %d rows of audit", gone, err, want)
	}
	if n := m.count("SELECT count(*) FROM audit WHERE at < $1", upTo.UnixNano()); n != 0 {
		m.Errorf("%d rows that have expired are left", n)
	}
}

// Months that have expired are dropped with all their rows; of the month in which the limit lies, and of those without a partition, the rows are deleted.
func TestExpiredMonthsAreDropped(t *testing.T) {
	m := newMonths(t)
	fresh := m.count(partitions)
	begin := time.Date(2023, 11, 1, 0, 0, 0, 0, time.UTC)
	m.do("SELECT add_months($1)", begin.UnixNano())
	if n := m.count(partitions); n != fresh+4 {
		t.Fatalf("there are %d partitions, and were %d", n, fresh)
	}
	stray := m.fill(time.Date(1999, 12, 30, 0, 0, 0, 0, time.UTC), time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC))
	november, december, january, february, march := 30, 31, 31, 29, 31
	if n := m.fill(begin, begin.AddDate(0, 5, 0)); n != november+december+january+february+march {
		t.Fatalf("%d days", n)
	}
	if n := m.count("SELECT count(*) FROM audit_other"); n != stray+march {
		t.Fatalf("%d rows are in months without a partition", n)
	}
	m.prune(time.Date(2024, 1, 11, 0, 0, 0, 0, time.UTC), stray+november+december+10)
	if n := m.count(partitions); n != fresh+2 {
		t.Errorf("%d partitions are left, want %d", n, fresh+2)
	}
	if n := m.count("SELECT count(*) FROM audit"); n != january-10+february+march {
		t.Errorf("%d rows are left", n)
	}
	m.do("SELECT add_months($1)", begin.AddDate(0, 4, 0).UnixNano()) // March has rows elsewhere
	if n := m.count(partitions); n != fresh+2+3 {
		t.Errorf("there are %d partitions, want those of April, May and June", n-fresh-2)
	}
}

// A backup reads the table for hours: nothing waits for it, and what has expired goes by rows.
func TestAMonthThatIsReadIsNotDropped(t *testing.T) {
	m := newMonths(t)
	begin := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	m.do("SELECT add_months($1)", begin.UnixNano())
	n := m.fill(begin, begin.AddDate(0, 2, 0))
	before := m.count(partitions)
	m.do("BEGIN")
	m.do("SELECT FROM audit")
	m.prune(begin.AddDate(0, 2, 0), n)
	m.do("COMMIT")
	if after := m.count(partitions); after != before {
		t.Errorf("%d partitions are left of %d", after, before)
	}
	m.prune(begin.AddDate(0, 2, 0), 0)
	if after := m.count(partitions); after != before-2 {
		t.Errorf("%d partitions are left of %d, want two fewer", after, before)
	}
}

// The month of any time begins when Go's does.
func TestMonthsBegin(t *testing.T) {
	m := newMonths(t)
	rapid.Check(t, func(r *rapid.T) {
		at := rapid.Int64Range(0, time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()).Draw(r, "at")
		after := rapid.IntRange(0, 40).Draw(r, "months")
		zone := rapid.SampledFrom([]string{"UTC", "Pacific/Kiritimati", "America/New_York"}).Draw(r, "zone")
		m.do(fmt.Sprintf("SET TIME ZONE '%s'", zone))
		when := time.Unix(0, at).UTC()
		want := time.Date(when.Year(), when.Month()+time.Month(after), 1, 0, 0, 0, 0, time.UTC).UnixNano()
		var got int64
		if err := m.conn.QueryRow(t.Context(), "SELECT month_begins($1, $2)", at, after).Scan(&got); err != nil || got != want {
			r.Fatalf("got %v (%v), want %v", time.Unix(0, got).UTC(), err, time.Unix(0, want).UTC())
		}
	})
}
